"""Retries that wait as long as the site asks for."""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from scrapers.spiders.base import MemeSpider, our_spider

_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
_FAILURES = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
_LONGEST_WAIT = 600.0


def retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait that a Retry-After header states, as a number or as a date; None if it is neither."""
    text = value.strip()
    if text.isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


class PatientRetry:
    """Takes the place of Scrapy's own retries, which do not know Retry-After.

    On 429 and 503 the whole host rests for as long as Retry-After says; a host that asks for more
    than ten minutes is not waited for. Without that header the n-th retry waits for 2^(n-1) times
    the configured delay.
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self._delay = crawler.settings.getfloat("DOWNLOAD_DELAY")
        self._rests_until: dict[str, float] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "PatientRetry":
        """The middleware of one spider."""
        return cls(crawler, our_spider(crawler))

    async def process_request(self, request: Request) -> None:
        """Hold the request back while its host rests."""
        host = urlparse_cached(request).hostname or ""
        while (left := self._rests_until.get(host, 0.0) - time.monotonic()) > 0:
            if not await self._spider.session.pause(left):
                return

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        """The response, or the request again once the wait is over."""
        if response.status not in _STATUSES:
            return response
        asked = _asked_to_wait(response)
        if asked is not None:
            if asked > _LONGEST_WAIT:
                self._spider.session.reasons["site asks for a wait of more than ten minutes"] += 1
                return response
            self._rest(request, asked)
        return await self._again(request, f"HTTP {response.status}", asked) or response

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """The request again after a failure that may pass, once the wait is over."""
        if not isinstance(exception, _FAILURES):
            return None
        return await self._again(request, type(exception).__name__, None)

    async def _again(self, request: Request, reason: str, asked_seconds: float | None) -> Request | None:
        retry = get_retry_request(request, spider=self._spider, reason=reason)
        if retry is None:
            return None
        backoff = self._delay * 2.0 ** request.meta.get("retry_times", 0)
        if not await self._spider.session.pause(backoff if asked_seconds is None else asked_seconds):
            return None
        self._spider.session.counts["retries"] += 1
        return retry

    def _rest(self, request: Request, seconds: float) -> None:
        host = urlparse_cached(request).hostname or ""
        until = time.monotonic() + seconds
        self._rests_until[host] = max(until, self._rests_until.get(host, 0.0))
        slot = self._crawler.engine.downloader.slots.get(request.meta.get("download_slot", ""))
        if slot is not None:
            # Requests that already wait in the downloader count their delay from here.
            slot.lastseen = max(slot.lastseen, until)


def _asked_to_wait(response: Response) -> float | None:
    header = response.headers.get("Retry-After")
    if header is None or response.status not in (429, 503):
        return None
    return retry_after(header.decode("latin-1"), datetime.now(UTC))
