"""Rows of the crawl bench's table."""

from dataclasses import dataclass

COLUMNS = ("", "a CPU s", "min-max", "against", "MB", "start", "Redis", "goal")


@dataclass(frozen=True)
class Row:
    """One crawler in one part. name: "PART: CRAWLER".

    shown: pages or pictures per processor second, or another figure of the part; spread: minimum and maximum.
    against: ratio to the row it is compared with, or a note.
    start, redis: processor seconds before work begins, and of the Redis server.
    memory_mb: peak. goal: text; met: whether it is reached, None without a goal. note: shown below the table.
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
        """Return the part of the bench."""
        return self.name.partition(":")[0]

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
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
