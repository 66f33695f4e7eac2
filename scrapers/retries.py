"""Whether and when a failed request is sent again, a page or a picture.

A response with Retry-After (429 or 503) pauses its host in all processes for as long as it says; a wait over ten
minutes fails. Without it, the n-th retry waits up to 2^n times the configured delay, at most two minutes. A failing
host is paused, and finally given up (see `hosts.py`).
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from memeloom.configs.retry import backoff_seconds
from memeloom.configs.schema import Crawl
from memeloom.scrapers.reasons import Kind, Reason
from memeloom.scrapers.session import CrawlSession

_LONGEST_WAIT = 600.0
_LONGEST_BACKOFF = 120.0
# Retries are delayed even if requests are not.
_LEAST_BACKOFF = 0.05


class Retries:
    """The retries of one source. `rest` pauses a host, given in seconds, in every process."""

    def __init__(self, crawl: Crawl, session: CrawlSession, rest: Callable[[str, float], None]) -> None:
        self._most = crawl.retries
        self._delay = max(_LEAST_BACKOFF, crawl.delay_seconds)
        self._session = session
        self._rest = rest

    def after_status(self, host: str, status: int, header: str | None, times: int) -> float | None:
        """Return the seconds until the retry of a request with a transient status; None to let it fail.

        Args:
            host: its host.
            status: one of `reasons.TRANSIENT_STATUSES`.
            header: the Retry-After header of the response.
            times: number of earlier retries.
        """
        asked = retry_after(header, datetime.now(UTC)) if header and status in (429, 503) else None
        if asked is None:
            if status != 429:
                self._count_failure(host)
        elif asked > _LONGEST_WAIT:
            self._session.count(Reason(Kind.LONG_WAIT))
            return None
        else:
            self._rest(host, asked)
        return self._wait(asked, times)

    def after_failure(self, host: str, times: int) -> float | None:
        """Return the seconds until the retry of a request without a response; None to let it fail."""
        self._count_failure(host)
        return self._wait(None, times)

    def backoff_seconds(self, times: int) -> float:
        """Return the seconds before the retry number `times`."""
        return backoff_seconds(times + 1, self._delay, _LONGEST_BACKOFF)

    def _wait(self, asked: float | None, times: int) -> float | None:
        if times >= self._most:
            return None
        self._session.counts["retries"] += 1
        return self.backoff_seconds(times + 1) if asked is None else asked

    def _count_failure(self, host: str) -> None:
        seconds = self._session.hosts.failed(host, time.monotonic())
        if seconds:
            self._session.counts["rests of failing hosts"] += 1
            self._rest(host, seconds)


def retry_after(value: str, now: datetime) -> float | None:
    """Parse a Retry-After header, a number or a date, into seconds; None if it is neither."""
    text = value.strip()
    if text.isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())
