"""Histogram bins that fit any dataset on a page."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

# Lower bounds of the bins.
_GROUPS = (2, 3, 4, 5, 10, 20, 50, 100)
# Share of the longest captions in the last bin.
_TAIL = 0.005


class Bin(NamedTuple):
    """The number of values from `low` to `high`, or from `low` on if `high` is None."""

    low: int
    high: int | None
    number: int

    @property
    def name(self) -> str:
        """Return a label such as ``10-19``."""
        if self.high is None:
            return f"{self.low:,} and more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}-{self.high:,}"


def cluster_bins(clusters: Mapping[int, int]) -> list[Bin]:
    """Return the number of groups of equal captions by size, in bins."""
    ends = [*(size - 1 for size in _GROUPS[1:]), None]
    bins = [
        Bin(low, high, sum(n for size, n in clusters.items() if low <= size and (high is None or size <= high)))
        for low, high in zip(_GROUPS, ends, strict=True)
    ]
    return [each for each in bins if each.number]


def length_bins(lengths: Mapping[int, int], most: int) -> list[Bin]:
    """Return at most `most` bins of equal width; the last one holds the long tail."""
    if not lengths:
        return []
    first, top, longest = min(lengths), _quantile(lengths, 1 - _TAIL), max(lengths)
    top = longest if longest - first <= 1.5 * (top - first) else top
    width = next(each for each in _widths() if top // each - first // each < most)
    counts: dict[int, int] = {}
    for length, count in lengths.items():
        at = min(length, top) // width
        counts[at] = counts.get(at, 0) + count
    last = top // width
    return [
        Bin(at * width, None if at == last and longest >= (at + 1) * width else (at + 1) * width - 1, counts.get(at, 0))
        for at in range(first // width, last + 1)
    ]


def _widths() -> Iterable[int]:
    ten = 1
    while True:
        yield from (ten, 2 * ten, 5 * ten)
        ten *= 10


def _quantile(counts: Mapping[int, int], share: float) -> int:
    left = share * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return max(counts)
