"""The downloader middleware that obeys robots.txt before a request, and tags in its response."""

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.http.request import NO_CALLBACK

from memeloom.scrapers.robots import LARGEST_BODY_BYTES, RobotsAnswer, RobotsUnavailable
from memeloom.scrapers.scheduler import scheduler_of
from memeloom.scrapers.sources.spider import MemeSpider, our_spider
from memeloom.scrapers.tags import TAG_HEADERS, RefusedByTag, refusal, tags_in_headers, tags_in_page

_FIRST = 1000


class Permissions:
    """Refuses what the owners of sites forbid; requests with ``meta["dont_obey_robotstxt"]`` skip robots.txt."""

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._session = spider.session
        self._settings = spider.config.crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Permissions":
        """Create the middleware of a `MemeSpider`."""
        return cls(crawler, our_spider(crawler))

    async def process_request(self, request: Request) -> Request | None:
        """Pass the request on, or return it to the queue if the crawl stops before robots.txt is known.

        Raises RobotsForbidden, RobotsUnavailable.
        """
        if not self._settings.obey_robots or request.meta.get("dont_obey_robotstxt"):
            return None
        try:
            await self._session.robots.check(request.url, self._fetch)
        except RobotsUnavailable:
            if self._session.stopping is None or not scheduler_of(self._crawler).holds(request):
                raise
            return request.replace(dont_filter=True)
        return None

    async def process_response(self, request: Request, response: Response) -> Response:
        """Return the response. Raises RefusedByTag."""
        if request.callback in (None, NO_CALLBACK) or not 200 <= response.status < 300:
            return response
        headers = response.headers
        tags = tags_in_headers((name, each.decode("latin-1")) for name in TAG_HEADERS for each in headers.getlist(name))
        if isinstance(response, HtmlResponse):
            tags |= tags_in_page(response.body)
        for tag in tags:
            self._session.counts[f"{'pages' if 'page' in request.meta else 'pictures'} tagged {tag}"] += 1
        if refused := refusal(tags, self._settings.obey_tags):
            raise RefusedByTag(response.url, refused)
        return response

    async def _fetch(self, url: str) -> RobotsAnswer:
        meta = {"dont_obey_robotstxt": True, "dont_redirect": True, "download_maxsize": LARGEST_BODY_BYTES}
        request = Request(url, NO_CALLBACK, meta=meta, priority=_FIRST)
        response = await self._crawler.engine.download_async(request)
        location = response.headers.get("Location")
        return RobotsAnswer(response.status, location.decode("latin-1") if location else None, response.body)
