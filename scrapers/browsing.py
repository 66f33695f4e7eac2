"""Pages that need a browser, as a Scrapy download handler: all else about them is as with any request."""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, DownloadFailedError
from scrapy.http import HtmlResponse, Response

from memeloom.scrapers.browsers.gate import Upstream
from memeloom.scrapers.heads import bound_heads, is_too_large
from memeloom.scrapers.pages.engines import ENGINES
from memeloom.scrapers.settings import user_agent
from memeloom.scrapers.spiders.base import our_spider

if TYPE_CHECKING:
    from memeloom.scrapers.browsers.pool import BrowserPool

# On the answer to a page that was cut short because the crawl stops.
UNFINISHED = "unfinished"

# They describe bytes that the browser has long decoded.
_SPENT_HEADERS = {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}

_POOLS: "WeakKeyDictionary[Crawler, BrowserPool]" = WeakKeyDictionary()


class BrowserHandler(HTTP11DownloadHandler):
    """Answers requests with ``meta["browser"]`` by what a browser shows, all others as Scrapy does.

    ``meta["browser"]`` is ``{"engine": name in ENGINES, "results": how many are wanted}``. The answer's status and
    headers are those of the page. One that was cut short because the crawl stops has the flag `UNFINISHED`; it is
    empty if no browser had been free. One browser pool serves a crawler, whatever the scheme.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        bound_heads(self)

    async def download_request(self, request: Request) -> Response:
        """Raises BrowserFailed, and what Scrapy's handlers raise."""
        wanted = request.meta.get("browser")
        if not wanted:
            return await self._download(request)
        from memeloom.scrapers.browsers.pool import BrowserPool

        spider = our_spider(self.crawler)
        pool = _POOLS.get(self.crawler)
        if pool is None:
            crawl = spider.config.crawl
            pool = _POOLS[self.crawler] = BrowserPool(crawl.images, user_agent(crawl), crawl.allow_hosts)
        page = await pool.show(
            request.url,
            ENGINES[wanted["engine"]],
            wanted["results"],
            lambda: spider.session.stopping is not None,
            _upstream(request),
        )
        if page is None:
            return HtmlResponse(request.url, request=request, flags=[UNFINISHED], encoding="utf-8")
        body = page.html.encode("utf-8", "replace")
        if len(body) > self.crawler.settings.getint("DOWNLOAD_MAXSIZE"):
            raise DownloadCancelledError(f"{page.url} has {len(body)} bytes")
        headers = {name: value for name, value in page.headers.items() if name.lower() not in _SPENT_HEADERS}
        flags = [] if page.finished else [UNFINISHED]
        return HtmlResponse(
            page.url, status=page.status, headers=headers, body=body, encoding="utf-8", flags=flags, request=request
        )

    async def _download(self, request: Request) -> Response:
        try:
            return await super().download_request(request)
        except DownloadFailedError as error:
            if is_too_large(error):
                raise DownloadCancelledError(f"{request.url}: too large a head") from error
            raise

    async def close(self) -> None:
        """End the browsers."""
        await super().close()
        pool = _POOLS.pop(self.crawler, None)
        if pool is not None:
            await pool.close()


def _upstream(request: Request) -> Upstream | None:
    proxy = request.meta.get("proxy")
    credentials = request.headers.get("Proxy-Authorization")
    return Upstream.at(proxy, credentials.decode("latin-1") if credentials else None) if proxy else None
