"""What becomes of a leased request."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Done:
    """Its results are durable, so it is acknowledged."""


@dataclass(frozen=True, slots=True)
class Retry:
    """It is acknowledged, and stored again for a lease after `after_seconds`, in the same exchange."""

    after_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """One attempt is charged: it returns to the queue, or to the dead-letter list after `crawl.attempts`."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """It moves to the dead-letter list."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """It returns to the queue unchanged."""


Outcome: TypeAlias = Done | Retry | Failed | SetAside | Released
