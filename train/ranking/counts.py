"""How often the runs of words of a caption occur in training: what shows invented words and broken phrases."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ranking.words import Hashes, Runs, Words, on_template, runs

_KEYS, _LOGS = "keys", "logs"
_FAMILIES: Final = ("words", "pairs", "triples", "template_pairs")
_HALF = np.uint64(32)
# Counts are kept as 16 times their logarithm to the base 2, in 8 bits.
_STEPS = 16.0
_RARE: Final = 5


class _Table(NamedTuple):
    """Counts of runs. keys: the upper half of their hashes, sorted, uint32. logs: see `_STEPS`, uint8."""

    keys: NDArray[np.uint32]
    logs: NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: Hashes) -> "_Table":
        keys, counts = np.unique((hashes >> _HALF).astype(np.uint32), return_counts=True)
        logs = np.round(_STEPS * np.log2(counts + 1)).clip(0, 255).astype(np.uint8)
        return cls(keys, logs)

    def counts(self, hashes: Hashes) -> NDArray[np.float64]:
        """Return the count of each run, about."""
        wanted = (hashes >> _HALF).astype(np.uint32)
        if not len(self.keys):
            return np.zeros(len(wanted))
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = np.exp2(self.logs[at] / _STEPS) - 1
        return np.where(self.keys[at] == wanted, found, 0.0)


class RunCounts:
    """Counts of words, pairs and triples of words, and of pairs on each template."""

    def __init__(self, tables: Mapping[str, _Table]) -> None:
        self._tables = tables

    @classmethod
    def of(cls, words: Words) -> "RunCounts":
        """Count the runs of the training captions."""
        return cls({name: _Table.of(found.hashes) for name, found in _families(words).items()})

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> "RunCounts":
        """Return the counts in `arrays`. Raises KeyError, ValueError."""
        tables = {}
        for name in _FAMILIES:
            keys, logs = arrays[f"{name}_{_KEYS}"], arrays[f"{name}_{_LOGS}"]
            if keys.dtype != np.uint32 or logs.dtype != np.uint8 or keys.ndim != 1 or keys.shape != logs.shape:
                raise ValueError(f"the counts of {name} are not what they should be")
            tables[name] = _Table(keys, logs)
        return cls(tables)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `restored` needs."""
        return {
            f"{name}_{part}": array
            for name, table in self._tables.items()
            for part, array in ((_KEYS, table.keys), (_LOGS, table.logs))
        }

    def features(self, words: Words) -> NDArray[np.float64]:
        """Return measures of each caption, (captions, measures)."""
        families = _families(words)
        counts = {name: self._tables[name].counts(found.hashes) for name, found in families.items()}
        size = len(words)
        length = np.bincount(words.caption, minlength=size)
        real = np.bincount(words.caption[words.real], minlength=size)
        first, pair, triple = families["words"], families["pairs"], families["triples"]
        single = counts["words"]
        unknown = np.bincount(words.caption, (single < 0.5) & words.real, size)
        rare = np.bincount(words.caption, (single >= 0.5) & (single < _RARE) & words.real, size)
        before = single[: len(single) - 1][words.caption[:-1] == words.caption[1:]]
        follows = np.log((counts["pairs"] + 0.1) / (before + 1))
        # A triple begins with the pair at its place; each caption has one pair more than triples.
        continued = _all_but_last(pair.caption)
        goes_on = np.log((counts["triples"] + 0.1) / (counts["pairs"][continued] + 0.5))
        fits = np.log((counts["template_pairs"] + 0.1) / (counts["pairs"] + 0.2))
        columns = [
            np.log(length), length / 10, words.boxes,
            unknown, unknown / np.maximum(real, 1), rare, rare / np.maximum(real, 1),
            _mean(first, np.log1p(single), size), _mean(pair, np.log1p(counts["pairs"]), size),
            _mean(triple, np.log1p(counts["triples"]), size),
            _mean(pair, counts["pairs"] < 0.5, size), np.bincount(pair.caption, counts["pairs"] < 0.5, size),
            _mean(triple, counts["triples"] < 0.5, size), np.bincount(triple.caption, counts["triples"] < 0.5, size),
            _mean(pair, follows, size), _least(pair, follows, size),
            _mean(triple, goes_on, size), _least(triple, goes_on, size),
            _mean(pair, fits, size), _least(pair, fits, size),
            _mean(pair, counts["template_pairs"] < 0.5, size),
            _repeated(first, words.real, size), _repeated(pair, np.ones(len(pair.caption), np.bool_), size),
        ]  # fmt: skip
        return np.column_stack(columns).astype(np.float64)

    def oddness(self, words: Words) -> NDArray[np.float64]:
        """Return twice the number of words of each caption that training lacks, and the share of such pairs."""
        size = len(words)
        single = self._tables["words"].counts(words.hashes)
        pair = runs(words, 2)
        unseen = _mean(pair, self._tables["pairs"].counts(pair.hashes) < 0.5, size)
        return 2 * np.bincount(words.caption, (single < 0.5) & words.real, size) + unseen


def _families(words: Words) -> dict[str, Runs]:
    pair = runs(words, 2)
    return {
        "words": runs(words, 1),
        "pairs": pair,
        "triples": runs(words, 3),
        "template_pairs": on_template(pair, words),
    }


def _all_but_last(caption: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(caption[:-1] == caption[1:])


def _mean(found: Runs, values: NDArray[Any], size: int) -> NDArray[np.float64]:
    count = np.bincount(found.caption, minlength=size)
    mean: NDArray[np.float64] = np.bincount(found.caption, values, size) / np.maximum(count, 1)
    return mean


def _least(found: Runs, values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    least = np.zeros(size)
    np.minimum.at(least, found.caption, values)
    return least


def _repeated(found: Runs, counted: NDArray[np.bool_], size: int) -> NDArray[np.float64]:
    """Return the share of runs that occurred earlier in their caption."""
    caption, hashes = found.caption[counted], found.hashes[counted]
    different = np.unique(np.column_stack([caption.astype(np.uint64), hashes]), axis=0)[:, 0]
    count = np.bincount(caption, minlength=size)
    fresh = np.bincount(different.astype(np.int64), minlength=size)
    return (count - fresh) / np.maximum(count, 1)
