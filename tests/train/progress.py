"""A progress that records what it is told."""

from memeloom.configs.progress import Silent


class Counts(Silent):
    """Adds up units and keeps the last value of each count."""

    def __init__(self) -> None:
        self.units = 0
        self.counts: dict[str, int] = {}

    def advance(self, n: int = 1, **counts: int) -> None:
        self.units += n
        self.counts |= counts
