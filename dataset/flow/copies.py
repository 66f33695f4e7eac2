"""Find captions similar to held-out ones, whatever their templates.

Captions that share a copy key (`dataset.flow.similarity`) are candidates: a pair with similarity J shares one with the
probability 1 - (1 - J^5)^24, which is 0.99993 for 0.8 and grows with J. Candidates whose sketches differ too much are
skipped; the caller compares the texts of the others.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.flow.similarity import (
    COPY_KEYS,
    SKETCH_ERROR,
    KeyTable,
    Words,
    fold,
    normalise,
    signatures,
    sketch_similarity,
)

# Held-out captions in the memory of a worker: 30 MB of keys.
HELD_OUT_AT_ONCE: Final = 32_768
# Pairs in memory before their sketches are compared.
_PAIRS = 100_000
_MEMBER = np.uint64(2**32 - 1)
_KEY = np.uint64(32)
# The copy keys of captions without words.
_BLANK = signatures([normalise([])], np.zeros(1, np.uint64)).copies[0]


class HeldOut:
    """An index of n held-out captions by their copy keys.

    Of captions with equal keys and sketches, as equal words have them, only one of the latest split is in it, so that
    popular captions are compared once. Captions without words are not in it: they resemble nothing.

    Args:
        keys: (n, COPY_KEYS).
        sketches: (n, 4).
        splits: number of the split of each in `dataset.schema.SPLITS`, (n,).
    """

    def __init__(self, keys: NDArray[np.uint32], sketches: Words, splits: NDArray[np.uint32]) -> None:
        self._sketches = sketches
        self._splits = splits
        members = _distinct(keys, sketches, splits)
        self._entries = np.sort(keys[members].astype(np.uint64) << _KEY | members.astype(np.uint64)[:, None], axis=None)
        self._keys = (self._entries >> _KEY).astype(np.uint32)
        # For each entry, where those of its key end.
        begins = np.flatnonzero(np.diff(self._keys, prepend=~self._keys[:1]))
        sizes = np.diff(begins, append=len(self._keys))
        self._ends = np.repeat(begins + sizes, sizes)
        self._table = KeyTable(self._keys)

    def candidates(
        self, keys: NDArray[np.uint32], sketches: Words, split: int, least: float, done: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield pairs of captions and members of later splits that may be similar, a bounded number at a time.

        Args:
            keys: of the m captions, (m, COPY_KEYS).
            sketches: (m, 4).
            split: number of their split.
            least: the least similarity.
            done: captions to skip, (m,); may be changed between two batches.

        Yields:
            Numbers of captions and members, sorted. A pair may come again in a later batch.
        """
        hits, first = self._table.find(keys.ravel())
        rows = hits // COPY_KEYS
        counts = self._ends[first] - first
        ends = np.cumsum(counts)
        at = before = 0
        while at < len(ends):
            end = max(int(np.searchsorted(ends, before + _PAIRS, "right")), at + 1)
            each = slice(at, end)
            some = counts[each] if done is None else np.where(done[rows[each]], 0, counts[each])
            offsets = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
            members = (self._entries[np.repeat(first[each], some) + offsets] & _MEMBER).astype(np.intp)
            yield self._similar(np.repeat(rows[each], some), members, sketches, split, least)
            at, before = end, int(ends[end - 1])

    def _similar(
        self, rows: NDArray[np.intp], members: NDArray[np.intp], sketches: Words, split: int, least: float
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        later = self._splits[members] > split
        rows, members = rows[later], members[later]
        alike = sketch_similarity(sketches[rows], self._sketches[members]) >= least - SKETCH_ERROR
        pairs = np.unique(rows[alike] << 32 | members[alike])
        return pairs >> 32, pairs & int(_MEMBER)


def _distinct(keys: NDArray[np.uint32], sketches: Words, splits: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Return the numbers of the captions with words, of those with equal keys and sketches one of the latest split."""
    worded = np.flatnonzero((keys != _BLANK).any(axis=1))
    latest = worded[np.argsort(-splits[worded].astype(np.int64), kind="stable")]
    signed = np.concatenate([keys[latest].astype(np.uint64), sketches[latest]], axis=1)
    # Of 64 bits: sorting whole rows takes ten times as long.
    _, first = np.unique(fold(signed.T), return_index=True)
    return np.sort(latest[first])
