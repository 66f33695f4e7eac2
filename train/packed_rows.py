"""Captions packed into rows of one length, with little padding.

Each pass shuffles the captions, packs them into rows, and rows into batches. What a batch holds depends on the seed and
the step only.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.corpus import shuffled


class Chosen(NamedTuple):
    """The captions of a batch, in order. number: of the pass. captions, rows: each caption, and its row, ascending."""

    number: int
    captions: NDArray[np.int64]
    rows: NDArray[np.int64]


class PackedRows:
    """The rows of all batches.

    sizes: returns the characters of a row that each caption takes in a pass, at most `length`, (captions,).
    captions: their number. rows, length: shape of a batch. most: captions of a row; None is no limit.
    """

    def __init__(
        self,
        sizes: Callable[[int], NDArray[np.int64]],
        captions: int,
        *,
        rows: int,
        length: int,
        seed: int,
        most: int | None = None,
    ) -> None:
        self._sizes, self._captions, self._most = sizes, captions, most or captions
        self._rows, self._length, self._seed = rows, length, seed
        self._ends: list[int] = []
        self._packed = lru_cache(2)(self._pack)

    @property
    def steps(self) -> int:
        """Number of batches in the first pass; other passes have nearly as many."""
        return self._last_step(0)

    def at(self, step: int) -> Chosen:
        """Return what the batch of a step holds."""
        number = 0
        while step >= self._last_step(number):
            number += 1
        first = step - (self._last_step(number - 1) if number else 0)
        order, begins = self._packed(number)
        row = slice(*(min(at, len(begins) - 1) for at in (first * self._rows, (first + 1) * self._rows)))
        captions_a_row = np.diff(begins[row.start : row.stop + 1])
        rows = np.repeat(np.arange(len(captions_a_row)), captions_a_row)
        return Chosen(number, order[begins[row.start] : begins[row.stop]], rows)

    def _last_step(self, number: int) -> int:
        """Return the number of steps of all passes up to this one."""
        while len(self._ends) <= number:
            rows = len(self._packed(len(self._ends))[1]) - 1
            self._ends.append((self._ends[-1] if self._ends else 0) - (-rows // self._rows))
        return self._ends[number]

    def _pack(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the captions of a pass in order, and the first caption of each row (and one behind the last)."""
        count = self._captions
        order = shuffled(np.arange(number * count, (number + 1) * count), count, self._seed)
        ends = np.cumsum(self._sizes(number)[order])
        begins = [0]
        while begins[-1] < count:
            before = ends[begins[-1] - 1] if begins[-1] else 0
            fitting = int(np.searchsorted(ends, before + self._length, side="right"))
            begins.append(min(fitting, begins[-1] + self._most))
        return order, np.array(begins)
