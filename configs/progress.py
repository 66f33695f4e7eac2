"""How a stage tells whoever watches how far it is, without knowing who watches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable


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


@dataclass(frozen=True, slots=True)
class HostNow:
    """How a host is doing: `state` in a word or two, `latency_seconds` None before its first answer."""

    name: str
    state: str
    latency_seconds: float | None = None
    answers: int = 0
    failures: int = 0
    received_bytes: int = 0
    rests_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Now:
    """How a stage that talks to hosts is doing at the moment.

    rates: units a second, of late, by name; ``bytes`` is one. queue: what lies ahead, by name.
    hosts: those worth a look, the unwell first. states: how many hosts there are in each state.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    queue: Mapping[str, int] = field(default_factory=dict)
    hosts: tuple[HostNow, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Window(Progress, Protocol):
    """A progress that also shows how things are at the moment."""

    def show(self, now: Now) -> None:
        """Let `now` take the place of what was shown before."""
        ...


@runtime_checkable
class Measured(Progress, Protocol):
    """A progress that also shows the latest measurements of a stage, such as a training's loss."""

    def measure(self, **values: float) -> None:
        """Replace the measurements with these names (``loss=2.31, accuracy=0.41``); others stay."""
        ...


def measure(progress: Progress, **values: float) -> None:
    """Report measurements of the running stage; a progress that cannot show them ignores them."""
    if isinstance(progress, Measured):
        progress.measure(**values)


class Silent:
    """A progress that nobody watches: for tests and for use as a library."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore the start of a stage."""

    def advance(self, n: int = 1, **counts: int) -> None:
        """Ignore the advance."""

    def finish(self) -> None:
        """Ignore the end."""


SILENT: Final = Silent()  # the default of every stage function
