"""Training examples, one per character of every caption, cut from the concatenated captions when they are needed.

An example is a position in the captions: its input is the caption's text before it, its label the character there.
Shuffling is a computed permutation of the positions, so a batch depends on the seed and step only, and training resumes
at any step.
"""

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import PREFIX_WIDTH
from memeloom.train.corpus import Captions, shuffled


def batch_of(
    captions: Captions, first: int, count: int, *, length: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the shuffled examples `first` … `first` + `count` - 1 of an endless sequence of passes.

    Returns inputs, int32 (count, length), see `inputs_at`, and labels, int32 (count,).
    """
    places = shuffled(np.arange(first, first + count, dtype=np.int64), captions.examples, seed)
    return inputs_at(captions, places, length), captions.characters[places].astype(np.int32) - 1


def inputs_at(captions: Captions, places: NDArray[np.int64], length: int) -> NDArray[np.int32]:
    """Return the network's inputs for the characters at `places`, (n,): int32 (n, length)."""
    caption = np.searchsorted(captions.starts, places, side="right") - 1
    behind = np.arange(length - PREFIX_WIDTH, 0, -1)
    tails = captions.characters[np.maximum(places[:, np.newaxis] - behind, 0)]
    prefixes = captions.prefixes[captions.templates[caption], captions.boxes[places]]
    return compose(prefixes, tails, np.minimum(places - captions.starts[caption], len(behind)))


def compose(prefixes: NDArray[np.uint16], tails: NDArray[np.uint16], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return inputs for the network, padding, prefix and text: int32 (n, sequence_length).

    prefixes: (n, PREFIX_WIDTH), padded on the left. tails: the end of the text, padded on the left,
    (n, sequence_length - PREFIX_WIDTH). lengths: characters of the tails without padding, (n,).
    A text too long loses its beginning, never its prefix.
    """
    room = tails.shape[1]
    inputs = np.zeros((len(tails), PREFIX_WIDTH + room), np.int32)
    before = room - lengths[:, np.newaxis]
    np.copyto(inputs[:, PREFIX_WIDTH:], tails, where=np.arange(room) >= before)
    np.put_along_axis(inputs, before + np.arange(PREFIX_WIDTH), prefixes, axis=1)
    return inputs
