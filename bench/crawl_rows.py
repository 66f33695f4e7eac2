"""The rows of the crawl bench's one table."""

from dataclasses import dataclass

COLUMNS = ("", "a CPU s", "min-max", "against", "MB", "start", "Redis", "goal")


@dataclass(frozen=True)
class Row:
    """One crawler in one part. name: "PART: CRAWLER".

    shown: pages or pictures a second of processor time, or what the part tells instead; spread: its least and most.
    against: the rate in multiples of the one that it is held against, or a note.
    start, redis: processor seconds until work begins, and those of the Redis server.
    memory_mb: the most that was held.
    goal: in words; met: whether it is; None for those that have none. note: what stands under the table.
    """

    name: str
    shown: str
    spread: str = ""
    against: str = ""
    memory_mb: float | None = None
    start: float | None = None
    redis: float | None = None
    goal: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def part(self) -> str:
        """Which part of the bench it belongs to."""
        return self.name.partition(":")[0]

    @property
    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        verdict = {None: "", True: ": yes", False: ": NO"}[self.met]
        return (
            self.name,
            self.shown,
            self.spread,
            self.against,
            "" if self.memory_mb is None else f"{self.memory_mb:.0f}",
            "" if self.start is None else f"{self.start:.1f}",
            "" if self.redis is None else f"{self.redis:.1f}",
            self.goal + verdict,
        )
