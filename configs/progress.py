"""How a stage tells whoever watches how far it is, without knowing who watches."""

from typing import Protocol


class Progress(Protocol):
    """Receives a stage's advance. The command line draws bars with it, or writes JSON lines."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin `stage`; `total` is the number of `unit`s to come, or None when nobody knows."""
        ...

    def advance(self, n: int = 1, **counts: int) -> None:
        """`n` more units are done; `counts` adds to named tallies (``kept=3, dropped=1``)."""
        ...

    def finish(self) -> None:
        """The stage started last is over."""
        ...


class Silent:
    """A progress that nobody watches: for tests and for use as a library."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore the start of a stage."""

    def advance(self, n: int = 1, **counts: int) -> None:
        """Ignore the advance."""

    def finish(self) -> None:
        """Ignore the end."""
