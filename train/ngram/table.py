"""What was counted after the values of all contexts, in one table: an estimate is one look-up of all contexts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import Contexts, Hashes, Stretches
from memeloom.train.ngram.counting import Level

Floats = NDArray[np.float32]
_TYPES: Final = {"keys": "u8", "sizes": "u2", "shares": "f2", "left": "f4"}
_MOST_IN_A_BYTE: Final = 256


class Estimates(NamedTuple):
    """What the chains say of some positions.

    probabilities: of each next character by each chain, float32 (chains, positions, characters). depth: number of the
    most specific context in each chain that was counted, from 0, (chains, positions).
    """

    probabilities: Floats
    depth: NDArray[np.int64]


class Table:
    """The levels of all chains, sorted by the hash of a context's value.

    contexts: of the chains. characters: size of the alphabet. columns: `keys`, uint64 ascending, and `sizes` and
    `left`, (values,); `symbols` and `shares`, (entries,): see `Level`.
    """

    def __init__(self, contexts: Contexts, characters: int, columns: Mapping[str, NDArray[Any]]) -> None:
        """Raises KeyError or ValueError if a column is missing, or does not fit the others."""
        _check(columns, characters)
        self.contexts, self.characters, self.columns = contexts, characters, columns
        self._keys, self._symbols, self._shares = columns["keys"], columns["symbols"], columns["shares"]
        self._first = np.zeros(len(self._keys) + 1, np.int32)
        np.cumsum(columns["sizes"], out=self._first[1:])
        # The last one stands for a value that was not counted.
        self._left = np.append(columns["left"], np.float32(1))
        # An index of the keys by their leading bits, two keys for each on average.
        bits = max(len(self._keys) // 2, 1).bit_length()
        self._shift = np.uint64(64 - bits)
        self._buckets = np.zeros((1 << bits) + 1, np.int32)
        self._buckets[1:-1] = np.searchsorted(self._keys, np.arange(1, 1 << bits, dtype=np.uint64) << self._shift)
        self._buckets[-1] = len(self._keys)

    @classmethod
    def of(cls, contexts: Contexts, characters: int, levels: Sequence[Level]) -> "Table":
        """Return the table of `levels`, one for each of `contexts`."""
        keys = np.concatenate([level.keys ^ mark for level, mark in zip(levels, contexts.marks, strict=True)])
        sizes = np.concatenate([level.sizes for level in levels])
        order = np.argsort(keys)
        begins = (np.cumsum(sizes) - sizes)[order]
        places = np.repeat(begins, sizes[order])
        places += _counts_up(sizes[order])
        columns = {
            "keys": keys[order],
            "sizes": sizes[order],
            "left": np.concatenate([level.left for level in levels])[order],
            "symbols": np.concatenate([level.symbols for level in levels])[places],
            "shares": np.concatenate([level.shares for level in levels])[places],
        }
        types = _types(characters)
        return cls(contexts, characters, {name: column.astype(types[name]) for name, column in columns.items()})

    def estimate(self, stretches: Stretches) -> Estimates:
        """Return the estimates for the positions of `stretches`."""
        hashed, differs = self.contexts.hashes(stretches)
        hashed ^= self.contexts.marks[:, np.newaxis]
        values = np.where(differs, self._find(hashed.ravel()).reshape(hashed.shape), -1)
        begins, chains = self.contexts.begins, len(self.contexts.begins)
        ends = np.append(begins[1:], len(self.contexts))
        left = self._left[values]
        # What more specific contexts leave to each, and to none at all.
        scale, rest = np.ones_like(left), np.empty((chains, left.shape[1]), np.float32)
        depth = np.zeros((chains, left.shape[1]), np.int64)
        known = values >= 0
        for chain, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            passed = np.cumprod(left[begin:end][::-1], axis=0)[::-1]
            scale[begin : end - 1], rest[chain] = passed[1:], passed[0]
            depth[chain] = end - begin - 1 - np.argmax(known[begin:end][::-1], axis=0)
        depth[:, :] = np.where(np.logical_or.reduceat(known, begins, axis=0), depth, 0)
        rest /= np.float32(self.characters)
        return Estimates(self._spread(values, scale) + rest[:, :, np.newaxis], depth)

    def _spread(self, values: NDArray[np.int64], scale: Floats) -> Floats:
        """Return the sums of scaled shares, (chains, positions, characters)."""
        chains, positions = len(self.contexts.begins), values.shape[1]
        level, position = np.nonzero(values >= 0)
        found = values[level, position]
        begin = self._first[found].astype(np.int64)
        sizes = self._first[found + 1] - begin
        places = np.repeat(begin, sizes)
        places += _counts_up(sizes)
        weights = self._shares[places] * np.repeat(scale[level, position], sizes)
        cell = np.repeat((self.contexts.chain[level] * positions + position) * self.characters, sizes)
        summed = np.bincount(cell + self._symbols[places], weights, chains * positions * self.characters)
        return summed.astype(np.float32).reshape(chains, positions, self.characters)

    def _find(self, hashed: Hashes) -> NDArray[np.int64]:
        """Return the index of each hash among the keys, or -1, (hashes,)."""
        keys, last = self._keys, len(self._keys) - 1
        if last < 0:
            return np.full(len(hashed), -1)
        bucket = (hashed >> self._shift).astype(np.int64)
        at = self._buckets[bucket].astype(np.int64)
        end = self._buckets[bucket + 1]
        smaller = np.flatnonzero((at < end) & (keys[np.minimum(at, last)] < hashed))
        while smaller.size:
            at[smaller] += 1
            there = at[smaller]
            smaller = smaller[(there < end[smaller]) & (keys[np.minimum(there, last)] < hashed[smaller])]
        found: NDArray[np.int64] = np.where((at < end) & (keys[np.minimum(at, last)] == hashed), at, -1)
        return found


def _counts_up(sizes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return 0 … size - 1 for each size, one after the other."""
    ends = np.cumsum(sizes, dtype=np.int64)
    counts: NDArray[np.int64] = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return counts


def _types(characters: int) -> Mapping[str, str]:
    """Return the type of each column."""
    return {**_TYPES, "symbols": "u1" if characters <= _MOST_IN_A_BYTE else "u2"}


def _check(columns: Mapping[str, NDArray[Any]], characters: int) -> None:
    for name, type_ in _types(characters).items():
        if columns[name].dtype != type_ or columns[name].ndim != 1:
            raise ValueError(
                f"{name} is {columns[name].dtype} in {columns[name].ndim} dimensions, expected {type_} in 1"
            )
    keys, sizes, symbols = columns["keys"], columns["sizes"], columns["symbols"]
    if not len(keys) == len(sizes) == len(columns["left"]) or not len(symbols) == len(columns["shares"]):
        raise ValueError("its counts differ in length")
    if int(sizes.sum(dtype=np.int64)) != len(symbols) or int(symbols.max(initial=0)) >= characters:
        raise ValueError("its counts do not fit its alphabet")
    if not (np.isfinite(columns["left"]).all() and np.isfinite(columns["shares"]).all()):
        raise ValueError("its counts have non-finite values")
