"""Captions packed into rows of one length, with little padding.

Each pass shuffles the captions, packs them into rows, and rows into batches. A batch depends on the seed and step only.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.causal.contexts import (
    NAMES,
    NULL_ROW,
    ContextSpec,
    context_rows,
    read_all,
    table_rows,
)
from memeloom.train.corpus import UNKNOWN_TEMPLATE, Captions, shuffled, template_numbers

# From the second pass on, a context that occurs n times is dropped with probability _RARE / n. Otherwise the network
# overfits to vectors that the table memorised from the same caption.
_RARE = 8
# Maximum number of captions, and number of picture vectors, of a row with pictures.
_CAPTIONS_A_ROW = 16

Packed: TypeAlias = tuple[tuple[NDArray[Any], ...], NDArray[np.int32], NDArray[np.float32]]


class CaptionPictures(NamedTuple):
    """The pictures of captions. vectors: (pictures, size). rows: the vector of each caption, int32 (captions,)."""

    vectors: NDArray[np.float16]
    rows: NDArray[np.int32]


class PackedBatches:
    """The batches of captions.

    rows, length: shape of a batch. Captions longer than a row are truncated.
    known: rows of the templates that have training captions.
    unknown: share of captions whose template is masked, to train the vector of unknown templates.
    shown: the pictures of the captions, for a network that uses them.
    """

    def __init__(
        self,
        captions: Captions,
        spec: ContextSpec,
        *,
        rows: int,
        length: int,
        seed: int,
        known: Sequence[int] | NDArray[Any],
        unknown: float,
        shown: CaptionPictures | None = None,
    ) -> None:
        self._captions, self._spec = captions, spec
        self._rows, self._length, self._seed, self._unknown = rows, length, seed, unknown
        self._templates = template_numbers(captions.templates, known)
        self._shown, self._most = shown, len(captions) if shown is None else _CAPTIONS_A_ROW
        self._ends: list[int] = []
        self._packed = lru_cache(2)(self._pack)
        # Count of each table row in the first `_counted` steps of the first pass.
        self._counts = np.zeros(table_rows(spec.bits, len(spec.alphabet)), np.int32)
        self._counted = 0

    @property
    def steps(self) -> int:
        """Number of batches in the first pass; other passes have nearly as many."""
        return self._last_step(0)

    @property
    def characters(self) -> int:
        """Mean number of characters in a batch."""
        return int(np.minimum(self._captions.lengths, self._length).sum()) // self.steps

    def batch(self, step: int) -> Packed:
        """Return (contexts int32 (rows, length, 16), begins float32 (rows, length)), labels and weights (rows, length).

        begins: 1 where a caption begins, and in the padding. labels: characters, numbered from 0.
        With pictures, the third input is the vectors of each row's captions in order, float32 (rows, 16, size).
        """
        number = 0
        while step >= self._last_step(number):
            number += 1
        inputs, labels, weights = self._read(step, number)
        if number:
            for earlier in range(self._counted, self._last_step(0)):
                self._count(self._read(earlier, 0)[0][0])
            inputs = (self._without_rare(inputs[0], step), *inputs[1:])
        elif step == self._counted:
            self._count(inputs[0])
        return inputs, labels, weights

    def one_pass(self, step: int) -> Packed:
        """Return a batch of the first pass with all contexts, for validation."""
        return self._read(step, 0)

    def _read(self, step: int, number: int) -> Packed:
        """Return the batch of `step`, in pass `number`, with all contexts."""
        first = step - (self._last_step(number - 1) if number else 0)
        order, begins = self._packed(number)
        row = slice(*(min(at, len(begins) - 1) for at in (first * self._rows, (first + 1) * self._rows)))
        chosen = order[begins[row.start] : begins[row.stop]]
        captions_a_row = np.diff(begins[row.start : row.stop + 1])
        rows = np.repeat(np.arange(len(captions_a_row)), captions_a_row)
        templates = self._templates[chosen]
        if self._unknown:
            hidden = np.random.default_rng([self._seed, step]).random(len(chosen)) < self._unknown
            templates = np.where(hidden, UNKNOWN_TEMPLATE, templates)
        shape = self._rows, self._length
        inputs, labels, weights = fill(self._captions, chosen, rows, templates, self._spec, shape)
        pictures = [] if self._shown is None else [self._pictures(self._shown, chosen, rows)]
        return (*inputs, *pictures), labels, weights

    def _count(self, contexts: NDArray[np.int32]) -> None:
        rows, times = np.unique(contexts, return_counts=True)
        self._counts[rows] += times.astype(np.int32)
        self._counted += 1

    def _without_rare(self, contexts: NDArray[np.int32], step: int) -> NDArray[np.int32]:
        """Drop rare contexts at random; see `_RARE`."""
        drawn = np.random.default_rng([self._seed, step, 1]).random(contexts.shape, np.float32)
        return np.where(drawn * self._counts[contexts] < _RARE, np.int32(NULL_ROW), contexts)

    def _pictures(
        self, shown: CaptionPictures, chosen: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        vectors = np.zeros((self._rows, _CAPTIONS_A_ROW, shown.vectors.shape[1]), np.float32)
        vectors[rows, np.arange(len(rows)) - np.searchsorted(rows, rows)] = shown.vectors[shown.rows[chosen]]
        return vectors

    def _last_step(self, number: int) -> int:
        """Return the number of steps of all passes up to this one."""
        while len(self._ends) <= number:
            rows = len(self._packed(len(self._ends))[1]) - 1
            self._ends.append((self._ends[-1] if self._ends else 0) - (-rows // self._rows))
        return self._ends[number]

    def _pack(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the captions of a pass in order, and the first caption of each row (and one behind the last)."""
        count = len(self._captions)
        order = shuffled(np.arange(number * count, (number + 1) * count), count, self._seed)
        sizes = np.minimum(self._captions.lengths[order], self._length)
        ends = np.cumsum(sizes)
        begins = [0]
        while begins[-1] < count:
            before = ends[begins[-1]] - sizes[begins[-1]]
            fitting = int(np.searchsorted(ends, before + self._length, side="right"))
            begins.append(min(fitting, begins[-1] + self._most))
        return order, np.array(begins)


def fill(
    captions: Captions,
    chosen: NDArray[np.int64],
    rows: NDArray[np.int64],
    templates: NDArray[np.int64],
    spec: ContextSpec,
    shape: tuple[int, int],
) -> tuple[tuple[NDArray[np.int32], NDArray[np.float32]], NDArray[np.int32], NDArray[np.float32]]:
    """Return a batch of the captions `chosen`, packed in order into their `rows`.

    rows: ascending. templates: each caption's template number. shape: rows, length.
    """
    length = shape[1]
    sizes = np.minimum(captions.lengths_of(chosen), length)
    starts = np.cumsum(sizes) - sizes
    inside = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    characters = captions.characters[np.repeat(captions.starts[:-1][chosen], sizes) + inside].astype(np.int64)
    reading = read_all(characters, starts, templates, spec.spaces, spec.separator)
    row_starts = starts - np.maximum.accumulate(np.where(np.diff(rows, prepend=-1) > 0, starts, 0))
    at = np.repeat(rows * length + row_starts, sizes) + inside
    contexts = np.zeros((shape[0] * length, len(NAMES)), np.int32)
    contexts[at] = context_rows(reading, spec.bits, len(spec.alphabet))
    begins = np.ones(shape[0] * length, np.float32)
    begins[at] = inside == 0
    labels = np.zeros(shape[0] * length, np.int32)
    labels[at] = characters - 1
    weights = np.zeros(shape[0] * length, np.float32)
    weights[at] = 1
    return (contexts.reshape(*shape, -1), begins.reshape(shape)), labels.reshape(shape), weights.reshape(shape)
