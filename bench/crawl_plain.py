"""Page parsing shared by all crawlers, and Scrapy's spiders with it.

Imports nothing from memeloom, so that it runs in the peers' environment.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

# Equal for all schedulers, so that the rest of Scrapy costs the same.
SETTINGS = {
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_TIMEOUT": 60,
    "COOKIES_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
    "LOGSTATS_INTERVAL": 0,
    "STATS_DUMP": False,
}


def units(response: Response) -> Iterator[dict[str, Any]]:
    """Yield the memes of a page with little parsing, so that the crawler is measured."""
    keys = response.css("h2.unit-title a::attr(href)").getall()
    titles = response.css("h2.unit-title a::text").getall()
    images = response.css("img.img::attr(src)").getall()
    captions = response.css("img.img::attr(alt)").getall()
    stats = response.css("div.stats::text").getall()
    for unit in zip(keys, titles, images, captions, stats, strict=True):
        yield dict(zip(("key", "title", "image", "caption", "stats"), unit, strict=True))


def links(response: Response) -> list[str]:
    """Return the links of a page."""
    return [response.urljoin(link) for link in response.css("a.next::attr(href)").getall()]


class Pages(Spider):
    """Crawls all pages of a site from `start_url`; items are dropped."""

    name = "bench"
    start_url: str

    async def start(self) -> AsyncIterator[Request]:
        """Yield the first page."""
        yield Request(self.start_url, self.parse)

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        """Yield the memes of a page and requests for its links."""
        yield from units(response)
        for link in links(response):
            yield Request(link, self.parse)


class Pictures(Spider):
    """Crawls the pictures of some lists with Scrapy's media pipelines."""

    name = "bench"
    start_url: str
    lists: int

    async def start(self) -> AsyncIterator[Request]:
        """Yield the lists."""
        for number in range(self.lists):
            yield Request(f"{self.start_url}{number}", self.parse)

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        """Yield an item per picture."""
        for address in response.text.split():
            # Each pipeline reads a different field.
            yield {field: [response.urljoin(address)] for field in ("file_urls", "image_urls")}
