"""Retries that obey Retry-After, and a backoff for failing hosts.

A delayed request returns to the frontier, so it occupies no slot.
"""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response

from memeloom.configs.retry import backoff_seconds
from memeloom.scrapers.hosts import host_of
from memeloom.scrapers.reasons import TRANSIENT_FAILURES, TRANSIENT_STATUSES, HostGivenUp, Kind, Reason
from memeloom.scrapers.request_info import changed
from memeloom.scrapers.scheduler import scheduler_of
from memeloom.scrapers.sources.spider import MemeSpider, our_spider

LONGEST_WAIT = 600.0
LONGEST_BACKOFF = 120.0
# Retries are delayed even if requests are not.
LEAST_BACKOFF = 0.05


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


class PatientRetry:
    """The downloader middleware that replaces Scrapy's retries, which ignore Retry-After.

    On 429 and 503 all processes pause the host for as long as Retry-After says; a wait over ten minutes fails. Without
    it, the n-th retry waits up to 2^n times the configured delay, at most two minutes. A failing host is paused, and
    finally given up (see `hosts.py`).
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self._session = spider.session
        self._hosts = spider.session.hosts
        self._delay = max(LEAST_BACKOFF, spider.config.crawl.delay_seconds)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "PatientRetry":
        """Create the middleware of a `MemeSpider`."""
        return cls(crawler, our_spider(crawler))

    async def process_request(self, request: Request) -> Request | None:
        """Pass the request on, or return it to the queue during its host's backoff. Raises HostGivenUp."""
        host = self._hosts[host_of(request)]
        if host.given_up:
            raise HostGivenUp(f"{host_of(request)} failed again and again")
        left = host.rests_until - time.monotonic()
        if left <= 0:
            return None
        return await self._wait(request.replace(dont_filter=True), left, instead_of=request)

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        """Return the response, or the request to retry."""
        name = host_of(request)
        if response.status not in TRANSIENT_STATUSES:
            self._hosts.answered(name, len(response.body), request.meta.get("download_latency", 0.0))
            return response
        asked = _retry_after_of(response)
        if asked is None:
            if response.status != 429:
                self._count_failure(name, request)
        elif asked > LONGEST_WAIT:
            self._session.count(Reason(Kind.LONG_WAIT))
            return response
        else:
            rest_host(self._crawler, request, asked)
        return await self._again(request, f"HTTP {response.status}", asked) or response

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Return the request to retry after a transient failure."""
        if not isinstance(exception, TRANSIENT_FAILURES):
            return None
        self._count_failure(host_of(request), request)
        return await self._again(request, type(exception).__name__, None)

    async def _again(self, request: Request, reason: str, asked_seconds: float | None) -> Request | None:
        retry = get_retry_request(request, spider=self._spider, reason=reason)
        if retry is None:
            return None
        if asked_seconds is None:
            asked_seconds = backoff_seconds(retry.meta["retry_times"] + 1, self._delay, LONGEST_BACKOFF)
        self._session.counts["retries"] += 1
        return await self._wait(retry, asked_seconds, instead_of=request)

    async def _wait(self, request: Request, seconds: float, *, instead_of: Request) -> Request | None:
        """Return the request delayed: through the frontier if it came from there, else after a pause."""
        if scheduler_of(self._crawler).holds(instead_of):
            return request.replace(meta=changed(request, wait_seconds=seconds))
        return request if await self._session.pause(seconds) else None

    def _count_failure(self, name: str, request: Request) -> None:
        seconds = self._hosts.failed(name, time.monotonic())
        if seconds:
            self._session.counts["rests of failing hosts"] += 1
            rest_host(self._crawler, request, seconds)


def rest_host(crawler: Crawler, request: Request, seconds: float) -> None:
    """Pause the host of `request`, which is in progress, in every process."""
    name = host_of(request)
    scheduler_of(crawler).queue.rest(name, seconds)


def _retry_after_of(response: Response) -> float | None:
    header = response.headers.get("Retry-After")
    if header is None or response.status not in (429, 503):
        return None
    return retry_after(header.decode("latin-1"), datetime.now(UTC))
