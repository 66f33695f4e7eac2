"""What Scrapy's engine has no public hook for."""

from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler


def on_finished(crawler: Crawler, finished: Callable[[Request], None]) -> None:
    """Call `finished` when the engine has finished with a request; the engine's slot must exist."""
    slot = _slot(crawler)
    remove = slot.remove_request

    def removed(request: Request) -> None:
        remove(request)
        finished(request)

    slot.remove_request = removed


def waker(crawler: Crawler) -> Callable[[], None]:
    """Return a function that makes the engine ask its scheduler for requests soon."""
    schedule: Callable[[], None] = _slot(crawler).nextcall.schedule
    return schedule


def _slot(crawler: Crawler) -> Any:
    return crawler.engine._slot  # noqa: SLF001
