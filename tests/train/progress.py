"""A progress that records what it is told."""

from collections import Counter

from memeloom.configs.progress import Progress


class Counts(Progress):
    """Adds up units and counts."""

    def __init__(self) -> None:
        self.units = 0
        self.counts: Counter[str] = Counter()

    def advance(self, n: int = 1, **counts: int) -> None:
        self.units += n
        self.counts.update(counts)
