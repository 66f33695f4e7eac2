"""Kneser-Ney estimates of the next character, over a chain of contexts from general to specific.

Interpolated and modified (Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1999):
a context takes a discount off each count, and its more general context says how that is spread. The counts of a general
context are the number of different specific ones, not of occurrences (Kneser and Ney, 1995). Contexts need not be the
last characters; each has to be a function of the next more specific one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import Context, Hashes, Stretches, hashes
from memeloom.train.ngram.left_out import LeftOut
from memeloom.train.ngram.levels import Floats, Level, count_level, without_single
from memeloom.train.ngram.text import Text

# Characters that are hashed at once in counting.
_BLOCK: Final = 1 << 20
# Estimates of general contexts are kept in at most so many bytes for each chain.
_GENERAL_BYTES: Final = 12_000_000


class Estimates(NamedTuple):
    """What a chain says of some positions.

    probabilities: of each next character, float32 (positions, characters). depth: number of the most specific context
    that was known, 0 … contexts - 1, int64 (positions,).
    """

    probabilities: Floats
    depth: NDArray[np.int64]


class Chain:
    """The counts of a chain of contexts.

    contexts: general to specific; the first is the empty one. levels: their counts. characters: size of the alphabet.
    general_bytes: memory for estimates of general contexts, which are computed once.
    """

    def __init__(
        self,
        contexts: Sequence[Context],
        levels: Sequence[Level],
        characters: int,
        *,
        general_bytes: int = _GENERAL_BYTES,
    ) -> None:
        self.contexts, self.levels = tuple(contexts), tuple(levels)
        self._characters = characters
        sizes = np.cumsum([len(level.keys) for level in levels])
        self._general = int(np.count_nonzero(sizes * characters * 4 <= general_bytes))
        self._first = np.concatenate([[0], sizes[: self._general]])
        # A row for each known value of the general contexts; NaN until it is needed.
        self._rows = np.full((int(self._first[-1]), characters), np.nan, np.float32)

    @classmethod
    def count(cls, text: Text, contexts: Sequence[Context], characters: int, *, singles: int | None = None) -> "Chain":
        """Count the characters of `text`.

        singles: number of general contexts whose values are all kept; of the others, values that occur once are
            forgotten. None keeps all.
        """
        levels: list[Level] = []
        positions = np.arange(len(text), dtype=np.int32)
        weights = np.ones(len(text), np.uint32)
        single = np.ones(len(text), np.bool_)
        own = _hashed(text, contexts[-1], positions)
        for number in range(len(contexts) - 1, -1, -1):
            general = _hashed(text, contexts[number - 1], positions) if number else np.zeros_like(own)
            # A stretch that ends at the begin of its caption is the same for several contexts: only the most
            # general of them counts it, and it counts occurrences.
            counted = np.flatnonzero(own != general)
            there = positions[counted]
            level, kept = count_level(own[counted], text.characters[there] - np.uint16(1), weights[counted])
            single_entries = single[counted[kept]] & (level.counts == 1)
            levels.append(without_single(level, single_entries) if singles is not None and number >= singles else level)
            same = np.flatnonzero(own == general)
            single = np.concatenate([single_entries, single[same]])
            weights = np.concatenate([np.ones(len(kept), np.uint32), weights[same]])
            going = np.concatenate([counted[kept], same])
            own, positions = general[going], positions[going]
        return cls(contexts, levels[::-1], characters)

    def estimate(self, stretches: Stretches) -> Estimates:
        """Return the estimates for all positions of `stretches`."""
        return self._combined(self._values([hashes(context, stretches) for context in self.contexts]), None)

    def estimate_left_out(self, text: Text) -> Estimates:
        """Return the estimates for each character of `text`, captions that were counted, as if its own was not.

        The counts of the whole caption are taken off each context, and so off the more general ones where it has the
        only occurrence. Discounts stay. What is left is exact, but for general contexts whose estimates are kept: they
        change only for characters whose caption has the only occurrence of the most specific of them.
        """
        found = [hashes(context, text.stretches) for context in self.contexts]
        values = self._values(found)
        return self._combined(values, LeftOut(text, found, values, self._characters))

    def _values(self, found: Sequence[Hashes]) -> list[NDArray[np.int64]]:
        """Return the index of each position's context at each level; -1 if it is unknown, or as the level before."""
        values: list[NDArray[np.int64]] = []
        going = np.arange(len(found[0]))
        before = np.zeros_like(found[0])
        for level, hashed in zip(self.levels, found, strict=True):
            value = np.full(len(hashed), -1)
            differs = hashed[going] != before[going]
            asked = going[differs]
            value[asked] = level.find(hashed[asked])
            # What follows an unknown context is unknown.
            going = going[~differs | (value[going] >= 0)]
            values.append(value)
            before = hashed
        return values

    def _combined(self, values: Sequence[NDArray[np.int64]], left_out: LeftOut | None) -> Estimates:
        positions = len(values[0])
        probabilities = np.zeros((positions, self._characters), np.float32)
        scale, depth = np.ones(positions, np.float32), np.zeros(positions, np.int64)
        asked = np.arange(positions)
        for number in range(len(self.levels) - 1, -1, -1):
            if number == self._general - 1:
                changed = np.zeros(positions, np.bool_) if left_out is None else left_out.changed(number)
                kept, asked = np.flatnonzero(~changed), np.flatnonzero(changed)
                rows, depths = self._kept(values, kept)
                probabilities[kept] += scale[kept, np.newaxis] * rows
                depth[kept] = np.maximum(depth[kept], depths)
            known = asked[values[number][asked] >= 0]
            if len(known) or left_out is not None:
                self._add(number, known, values[number][known], left_out, (probabilities, scale, depth))
        probabilities[asked] += scale[asked, np.newaxis] / np.float32(self._characters)
        return Estimates(probabilities, depth)

    def _add(
        self,
        number: int,
        rows: NDArray[np.int64],
        values: NDArray[np.int64],
        left_out: LeftOut | None,
        made: tuple[Floats, Floats, NDArray[np.int64]],
    ) -> None:
        """Add what a level says of some rows. made: probabilities so far, what is left of 1, and depths; changed."""
        probabilities, scale, depth = made
        level = self.levels[number]
        entries = level.entries(rows, values)
        if left_out is not None:
            entries = left_out.taken(number, entries)
        shares, left = level.shares(entries)
        shares *= scale[entries.row]
        # Each pair of row and character occurs once.
        probabilities.reshape(-1)[entries.row * self._characters + entries.symbol] += shares
        scale[rows] *= left
        counted = rows[left < 1]
        depth[counted] = np.maximum(depth[counted], number)

    def _kept(
        self, values: Sequence[NDArray[np.int64]], positions: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return the estimates of the general contexts at `positions`, and their depths."""
        row, depth = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
        for number in range(self._general):
            value = values[number][positions]
            known = value >= 0
            row[known] = self._first[number] + value[known]
            depth[known] = number
        missing = np.flatnonzero(np.isnan(self._rows[row, 0]))
        if len(missing):
            _, once = np.unique(row[missing], return_index=True)
            self._compute(values, positions[missing[once]], row[missing[once]])
        return self._rows[row], depth

    def _compute(
        self, values: Sequence[NDArray[np.int64]], positions: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        """Compute the estimates of the general contexts at `positions` into `rows`."""
        count = len(positions)
        made = np.zeros((count, self._characters), np.float32), np.ones(count, np.float32), np.zeros(count, np.int64)
        for number in range(self._general - 1, -1, -1):
            value = values[number][positions]
            known = np.flatnonzero(value >= 0)
            if len(known):
                self._add(number, known, value[known], None, made)
        self._rows[rows] = made[0] + made[1][:, np.newaxis] / np.float32(self._characters)


def _hashed(text: Text, context: Context, positions: NDArray[np.int32]) -> Hashes:
    """Return the hashes of a context at many positions, in blocks, which takes less memory."""
    hashed = np.empty(len(positions), np.uint64)
    for first in range(0, len(positions), _BLOCK):
        block = slice(first, first + _BLOCK)
        hashed[block] = hashes(context, text.at(positions[block]))
    return hashed
