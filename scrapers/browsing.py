"""Pages that need a browser, for requests that ask for one; all else about them is as with any request."""

import asyncio

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse

from scrapers.settings import user_agent
from scrapers.spiders.base import our_spider


class BrowserPages:
    """The middleware that answers requests with ``meta["browser"]`` by what a real browser shows.

    It stands behind robots.txt and the address guard. One browser works at a time, in a thread.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._one = asyncio.Semaphore(1)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "BrowserPages":
        """The middleware of one spider, which must be one of ours."""
        return cls(crawler)

    async def process_request(self, request: Request) -> HtmlResponse | None:
        """The page, scrolled to its end. Raises BrowserFailed."""
        if not request.meta.get("browser"):
            return None
        from scrapers.browser import browse_results

        spider = our_spider(self._crawler)
        crawl = spider.config.crawl
        async with self._one:
            html = await asyncio.to_thread(
                browse_results,
                request.url,
                crawl.images,
                user_agent(crawl),
                lambda: spider.session.stopping is not None,
            )
        return HtmlResponse(request.url, body=html, encoding="utf-8", request=request)
