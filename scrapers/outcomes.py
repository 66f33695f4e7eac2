"""What becomes of a leased request, decided here for every response and exception."""

from dataclasses import dataclass
from typing import TypeAlias

from memeloom.catalog.errors import StoreError
from memeloom.configs.errors import MemeloomError
from memeloom.scrapers.errors import LayoutChanged
from memeloom.scrapers.items import NotLanded
from memeloom.scrapers.reasons import Kind, Reason, reason_of


@dataclass(frozen=True, slots=True)
class Done:
    """It is acknowledged: its results are durable, or it failed for a `reason` that no repetition changes."""

    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """It is acknowledged, and stored again for a lease after `after_seconds`, in the same exchange."""

    after_seconds: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class Failed:
    """One attempt is charged: it returns to the queue, or to the dead-letter list after `crawl.attempts`."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class SetAside:
    """It moves to the dead-letter list."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Released:
    """It returns to the queue unchanged."""


Outcome: TypeAlias = Done | Retry | Failed | SetAside | Released


def reason_of_outcome(outcome: Outcome) -> Reason | None:
    """Return why a request failed; None if it did not."""
    return None if isinstance(outcome, Released) else outcome.reason


def bad_page(status: int, *, is_text: bool) -> Reason | None:
    """Return why a page cannot be used; None if it can."""
    if not 200 <= status < 300:
        return Reason(Kind.HTTP, str(status))
    return None if is_text else Reason(Kind.NOT_TEXT)


def after_download(error: BaseException, *, is_last_resort: bool = True) -> Done | Failed | SetAside | Released:
    """Decide after the last retry of a download.

    Args:
        error: why it failed.
        is_last_resort: no other request replaces this one, so it is kept for a later crawl if that may succeed.
    """
    if ends_source(error):
        return after_processing(error)
    reason = reason_of(error)
    return SetAside(reason) if reason.is_transient and is_last_resort else Done(reason)


def after_processing(error: BaseException, *, from_its_site: bool = True) -> Failed | Released:
    """Decide after an exception of a parser or of storing; failures of a store do not count against the request."""
    if isinstance(error, StoreError | NotLanded):
        return Released()
    if ends_source(error, from_its_site=from_its_site):
        return Failed(reason_of(error))
    return Failed(Reason(Kind.UNREADABLE, type(error).__name__))


def ends_source(error: BaseException, *, from_its_site: bool = True) -> bool:
    """Return whether an exception ends its source: only our own errors do, and a layout only of the site's own pages.

    Any other exception is caused by the bytes of that request, so it fails that request.
    """
    return isinstance(error, MemeloomError) and (from_its_site or not isinstance(error, LayoutChanged))
