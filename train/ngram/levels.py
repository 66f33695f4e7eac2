"""Counts of what follows each value of one context, in sorted arrays."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import CLEAR, Hashes

Floats = NDArray[np.float32]
_SYMBOL: Final = ~CLEAR
# Counts of at least this have one discount.
_LAST_DISCOUNT: Final = 3


class Entries(NamedTuple):
    """The characters that were counted after the contexts of some rows, one row after the other.

    row: of each entry, (entries,). symbol: character from 0. times: its count, float32.
    begins: first entry of each row that has a known context, ascending, (rows with one,). rows: which those are.
    """

    row: NDArray[np.int64]
    symbol: NDArray[np.int64]
    times: Floats
    begins: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """Counts for one context.

    keys: hashes of its values, ascending, uint64 (values,). first: offset of the entries of each, and the end of the
    last, int32 (values + 1,). symbols: characters from 0, ascending for each value, (entries,). counts: how often each
    was counted, (entries,), of the smallest type that holds them. discounts: what is taken off a count of 0, 1, 2, and
    at least 3, float32 (4,).
    """

    keys: Hashes
    first: NDArray[np.int32]
    symbols: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[np.unsignedinteger[Any]]
    discounts: Floats
    _buckets: NDArray[np.int32] = field(init=False, repr=False)
    _shift: np.uint64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the keys by their leading bits, a key for each bucket on average."""
        if not len(self.first) == len(self.keys) + 1 or not self.first[-1] == len(self.symbols) == len(self.counts):
            raise ValueError("its counts do not fit together")
        bits = max(len(self.keys) - 1, 1).bit_length()
        buckets = np.zeros((1 << bits) + 1, np.int32)
        shift = np.uint64(64 - bits)
        np.cumsum(np.bincount((self.keys >> shift).astype(np.int64), minlength=1 << bits), out=buckets[1:])
        object.__setattr__(self, "_buckets", buckets)
        object.__setattr__(self, "_shift", shift)

    def find(self, hashed: Hashes) -> NDArray[np.int64]:
        """Return the index of each hash among the keys, or -1, (hashes,)."""
        bucket = (hashed >> self._shift).astype(np.int64)
        at = self._buckets[bucket].astype(np.int64)
        end = self._buckets[bucket + 1]
        last = len(self.keys) - 1
        going = np.flatnonzero((at < end) & (self.keys[np.minimum(at, last)] < hashed))
        while going.size:
            at[going] += 1
            there = at[going]
            going = going[(there < end[going]) & (self.keys[np.minimum(there, last)] < hashed[going])]
        return np.where((at < end) & (self.keys[np.minimum(at, last)] == hashed), at, -1)

    def entries(self, rows: NDArray[np.int64], values: NDArray[np.int64]) -> Entries:
        """Return what follows the context of each of `rows`. values: index of each row's context among the keys."""
        begin = self.first[values].astype(np.int64)
        sizes = self.first[values + 1] - begin
        begins = np.cumsum(sizes) - sizes
        at = np.repeat(begin - begins, sizes)
        at += np.arange(len(at))
        return Entries(
            np.repeat(rows, sizes), self.symbols[at].astype(np.int64), self.counts[at].astype(np.float32), begins, rows
        )

    def shares(self, entries: Entries) -> tuple[Floats, Floats]:
        """Return the probability of each entry, and that of all else after each context, for a more general one.

        Returns: (entries,) and (rows with a known context,). A context without counts leaves all to the general one.
        """
        off = self.discounts[np.minimum(entries.times, _LAST_DISCOUNT).astype(np.intp)]
        total = np.add.reduceat(entries.times, entries.begins)
        empty = total <= 0
        total[empty] = 1
        left = np.add.reduceat(off, entries.begins) / total
        left[empty] = 1
        sizes = np.diff(entries.begins, append=len(entries.times))
        shares = entries.times - off
        shares /= np.repeat(total, sizes)
        return shares, left.astype(np.float32)


def count_level(
    hashed: Hashes, symbols: NDArray[np.integer[Any]], weights: NDArray[np.uint32]
) -> tuple[Level, NDArray[np.int64]]:
    """Count characters by context.

    Args:
        hashed: hash of each context, (places,).
        symbols: the character after it, from 0.
        weights: how often it counts.

    Returns: the counts, and one of the places of each of their entries, (entries,).
    """
    keys = hashed | symbols.astype(np.uint64)
    order = np.argsort(keys)
    keys = keys[order]
    new = np.flatnonzero(_differ(keys))
    counts = np.add.reduceat(weights[order], new) if len(new) else np.zeros(0, np.uint32)
    keys, kept = keys[new], order[new]
    found = (keys & _SYMBOL).astype(np.min_scalar_type(int(symbols.max(initial=0))))
    keys &= CLEAR
    begins = np.flatnonzero(_differ(keys))
    first = np.append(begins, len(keys)).astype(np.int32)
    smallest = np.min_scalar_type(int(counts.max(initial=0)))
    return Level(keys[begins], first, found, counts.astype(smallest), discounts(counts)), kept


def _differ(keys: Hashes) -> NDArray[np.bool_]:
    """Return True for each key that differs from the one before it, and for the first."""
    differ = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=differ[1:])
    return differ


def discounts(counts: NDArray[np.unsignedinteger[Any]]) -> Floats:
    """Return what is taken off counts of 0, 1, 2 and more (Chen and Goodman, 1999), from how often small ones occur."""
    often = np.bincount(np.minimum(counts, _LAST_DISCOUNT + 2).astype(np.int64), minlength=_LAST_DISCOUNT + 2)
    taken = np.zeros(_LAST_DISCOUNT + 1, np.float32)
    share = often[1] / (often[1] + 2 * often[2]) if often[1] else 0.5
    for count in range(1, _LAST_DISCOUNT + 1):
        more = often[count + 1] / often[count] if often[count] else 0.5
        taken[count] = min(max(count - (count + 1) * share * more, 0.05), count - 0.05)
    return taken


def without_single(level: Level, single: NDArray[np.bool_]) -> Level:
    """Return the level without the contexts that occur once; a quarter is left of those of long contexts.

    single: True for entries that stand for one occurrence, (entries,).
    """
    begins, sizes = level.first[:-1], np.diff(level.first)
    kept = (sizes > 1) | ~single[begins]
    entries = np.repeat(kept, sizes)
    first = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int32)
    return Level(level.keys[kept], first, level.symbols[entries], level.counts[entries], level.discounts)
