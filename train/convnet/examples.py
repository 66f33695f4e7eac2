"""Every prefix of every caption is an example, cut out on the device and never stored.

The captions of a split lie on the device end to end (3 bytes a character). An example is a position in them:
its text is what the caption says before it, its label the character there. Shuffling is a permutation of
the positions that can be computed at any place, so the examples of a step are a function of the seed and
the step alone, and a training continues at any step without replaying the ones before.
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
    """Return the examples of `step`, shuffled over all examples, pass after pass.

    Places of the labels, int32 (batch,), and indices of the characters there, int32 (batch,).
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
    """Return inputs for the network: padding, prefix and text, aligned on the right.

    prefixes: (n, PREFIX_WIDTH), padded on the left. tails: (n, sequence_length - PREFIX_WIDTH), the end of
    the text, aligned on the right. lengths: (n,), number of characters of the tail that are text.
    A text too long loses its beginning, never its prefix. Returns int32 (n, sequence_length).
    """
    ops = keras.ops
    both = ops.cast(ops.concatenate([prefixes, tails], axis=1), "int32")
    width = both.shape[1]
    place = ops.arange(width, dtype="int32")[None]
    in_prefix = place - (width - PREFIX_WIDTH - ops.cast(lengths, "int32")[:, None])
    source = ops.where(in_prefix < PREFIX_WIDTH, ops.maximum(in_prefix, 0), place)
    return ops.where(in_prefix >= 0, ops.take_along_axis(both, source, axis=1), 0)


class Cut(keras.layers.Layer):  # type: ignore[misc]  # keras has no types
    """Cuts examples out of captions that lie on the device: places int32 (n,) to int32 (n, sequence_length).

    Raises MemeloomError if the places of the captions exceed 32 bits.
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
        """Return the examples whose labels are at `places`."""
        ops = keras.ops
        caption = ops.cast(ops.searchsorted(self._starts, places, side="right"), "int32") - 1
        written = ops.minimum(places - ops.take(self._starts, caption), self._tail)
        behind = ops.arange(self._tail, 0, -1, dtype="int32")
        tails = ops.take(self._characters, ops.maximum(places[:, None] - behind[None], 0))
        box = ops.cast(ops.take(self._boxes, places), "int32")
        row = ops.take(self._templates, caption) * self._prefixes.shape[1] + box
        prefixes = ops.take(ops.reshape(self._prefixes, (-1, PREFIX_WIDTH)), row, axis=0)
        return compose(prefixes, tails, written)
