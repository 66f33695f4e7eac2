"""Training examples, one per character of every caption, built on the device and never stored.

The concatenated captions of a split are on the device (3 bytes per character). An example is a position in them: its
input is the caption's text before it, its label the character there. Shuffling is a computed permutation of the
positions, so a batch depends on the seed and step only, and training resumes at any step.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.train.backend import holds_short_integers, keras
from memeloom.train.characters import PREFIX_WIDTH
from memeloom.train.corpus import Captions, shuffled

_MOST = 2**31 - 1


def examples_of(captions: Captions, step: int, *, batch: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the positions of the examples of `step`, and their labels, both int32 (batch,).

    Every pass over all examples is shuffled anew.
    """
    return _labelled(captions, np.arange(step * batch, (step + 1) * batch, dtype=np.int64), seed)


def one_pass_of(captions: Captions, step: int, *, batch: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the examples of `step` of a single pass; the last batch is smaller."""
    last = min((step + 1) * batch, captions.examples)
    return _labelled(captions, np.arange(step * batch, last, dtype=np.int64), seed)


def _labelled(captions: Captions, at: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    places = shuffled(at, captions.examples, seed).astype(np.int32)
    return places, captions.characters[places].astype(np.int32) - 1


def compose(prefixes: Any, tails: Any, lengths: Any) -> Any:
    """Return inputs for the network, padding, prefix and text: int32 (n, sequence_length).

    prefixes: (n, PREFIX_WIDTH), padded on the left. tails: the end of the text, padded on the left,
    (n, sequence_length - PREFIX_WIDTH). lengths: characters of the tails without padding, (n,).
    A text too long loses its beginning, never its prefix.
    """
    ops = keras.ops
    both = ops.cast(ops.concatenate([prefixes, tails], axis=1), "int32")
    width = both.shape[1]
    place = ops.arange(width, dtype="int32")[None]
    in_prefix = place - (width - PREFIX_WIDTH - ops.cast(lengths, "int32")[:, None])
    source = ops.where(in_prefix < PREFIX_WIDTH, ops.maximum(in_prefix, 0), place)
    return ops.where(in_prefix >= 0, ops.take_along_axis(both, source, axis=1), 0)


class Cut(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """Builds examples from captions on the device: positions int32 (n,) to int32 (n, sequence_length).

    Raises MemeloomError if the positions exceed 32 bits.
    """

    def __init__(self, captions: Captions, sequence_length: int) -> None:
        super().__init__(trainable=False, name="cut")
        if captions.examples > _MOST:
            raise MemeloomError(
                f"{captions.examples:,} characters are more than convnet can learn from ({_MOST:,}); lower "
                "dataset.captions_per_template, or choose train.model causal"
            )
        self._tail = sequence_length - PREFIX_WIDTH
        self._characters = self._held("characters", captions.characters)
        self._boxes = self._held("boxes", captions.boxes)
        self._starts = self._held("starts", captions.starts.astype(np.int32))
        self._templates = self._held("templates", captions.templates)
        self._prefixes = self._held("prefixes", captions.prefixes)

    def _held(self, name: str, values: NDArray[Any]) -> Any:
        dtype = str(values.dtype) if holds_short_integers() else "int32"
        weight = self.add_weight(shape=values.shape, dtype=dtype, trainable=False, name=name)
        weight.assign(values)
        return weight

    def call(self, places: Any) -> Any:
        """Return the examples at `places`."""
        ops = keras.ops
        caption = ops.cast(ops.searchsorted(self._starts, places, side="right"), "int32") - 1
        written = ops.minimum(places - ops.take(self._starts, caption), self._tail)
        behind = ops.arange(self._tail, 0, -1, dtype="int32")
        tails = ops.take(self._characters, ops.maximum(places[:, None] - behind[None], 0))
        box = ops.cast(ops.take(self._boxes, places), "int32")
        row = ops.take(self._templates, caption) * self._prefixes.shape[1] + box
        prefixes = ops.take(ops.reshape(self._prefixes, (-1, PREFIX_WIDTH)), row, axis=0)
        return compose(prefixes, tails, written)
