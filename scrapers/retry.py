"""Retries of Scrapy's requests, as `retries.py` decides.

A delayed request returns to the frontier, so it occupies no slot.
"""

import time

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response

from memeloom.scrapers.hosts import host_of
from memeloom.scrapers.reasons import TRANSIENT_FAILURES, TRANSIENT_STATUSES, HostGivenUp
from memeloom.scrapers.request_info import changed
from memeloom.scrapers.retries import Retries
from memeloom.scrapers.scheduler import scheduler_of
from memeloom.scrapers.sources.spider import MemeSpider, our_spider


class PatientRetry:
    """The downloader middleware that replaces Scrapy's retries, which ignore Retry-After."""

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self._session = spider.session
        self._hosts = spider.session.hosts
        self._retries = Retries(spider.config.crawl, spider.session, self._rest)

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
        header = response.headers.get("Retry-After")
        seconds = self._retries.after_status(
            name, response.status, header.decode("latin-1") if header else None, request.meta.get("retry_times", 0)
        )
        return await self._again(request, f"HTTP {response.status}", seconds) or response

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Return the request to retry after a transient failure."""
        if not isinstance(exception, TRANSIENT_FAILURES):
            return None
        seconds = self._retries.after_failure(host_of(request), request.meta.get("retry_times", 0))
        return await self._again(request, type(exception).__name__, seconds)

    async def _again(self, request: Request, reason: str, seconds: float | None) -> Request | None:
        most = 0 if seconds is None else None
        retry = get_retry_request(request, spider=self._spider, reason=reason, max_retry_times=most)
        return None if retry is None or seconds is None else await self._wait(retry, seconds, instead_of=request)

    async def _wait(self, request: Request, seconds: float, *, instead_of: Request) -> Request | None:
        """Return the request delayed: through the frontier if it came from there, else after a pause."""
        if scheduler_of(self._crawler).holds(instead_of):
            return request.replace(meta=changed(request, wait_seconds=seconds))
        return request if await self._session.pause(seconds) else None

    def _rest(self, host: str, seconds: float) -> None:
        scheduler_of(self._crawler).queue.rest(host, seconds)


def rest_host(crawler: Crawler, request: Request, seconds: float) -> None:
    """Pause the host of `request`, which is in progress, in every process."""
    scheduler_of(crawler).queue.rest(host_of(request), seconds)
