"""The downloader middleware that sends each request in its host's turn."""

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from memeloom.scrapers.hosts import host_of
from memeloom.scrapers.request_info import changed
from memeloom.scrapers.scheduler import scheduler_of
from memeloom.scrapers.sources.spider import MemeSpider, our_spider


class Turns:
    """Delays requests until the frontier grants them; it comes last, so that nothing delays them any further.

    The frontier grants a leased request with its lease. Requests that are not leased, such as for robots.txt, and those
    that waited for one, need a grant of their own.
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._session = spider.session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Turns":
        """Create the middleware of a `MemeSpider`."""
        return cls(crawler, our_spider(crawler))

    async def process_request(self, request: Request) -> Request | None:
        """Pass the request on in its turn; during a long backoff, return it to the queue. Raises IgnoreRequest."""
        scheduler = scheduler_of(self._crawler)
        while wait := await scheduler.queue.turn(host_of(request)):
            if scheduler.holds(request):
                return request.replace(dont_filter=True, meta=changed(request, wait_seconds=wait))
            if not await self._session.pause(wait):
                raise IgnoreRequest("the crawl was stopped")
        return None
