"""What is crawled, whoever crawls it: how a page is read, and Scrapy's plain spiders that read it so.

Nothing of memeloom is imported, so that the peers' environment can run this.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

# The same for every crawler that is compared by its scheduler: what Scrapy does beside is then equal.
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
    """The memes of a page, read in few strokes, so that the crawler is measured and not the reading."""
    keys = response.css("h2.unit-title a::attr(href)").getall()
    titles = response.css("h2.unit-title a::text").getall()
    images = response.css("img.img::attr(src)").getall()
    captions = response.css("img.img::attr(alt)").getall()
    stats = response.css("div.stats::text").getall()
    for unit in zip(keys, titles, images, captions, stats, strict=True):
        yield dict(zip(("key", "title", "image", "caption", "stats"), unit, strict=True))


def links(response: Response) -> list[str]:
    """Where a page leads to."""
    return [response.urljoin(link) for link in response.css("a.next::attr(href)").getall()]


class Pages(Spider):
    """All pages of a site, from `start_url` on; items are not kept."""

    name = "bench"
    start_url: str

    async def start(self) -> AsyncIterator[Request]:
        """The first page."""
        yield Request(self.start_url, self.parse)

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        """The memes of a page, and the pages that it links to."""
        yield from units(response)
        for link in links(response):
            yield Request(link, self.parse)


class Pictures(Spider):
    """The pictures of a number of lists, for Scrapy's own media pipelines."""

    name = "bench"
    start_url: str
    lists: int

    async def start(self) -> AsyncIterator[Request]:
        """The lists."""
        for number in range(self.lists):
            yield Request(f"{self.start_url}{number}", self.parse)

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        """An item a picture."""
        for address in response.text.split():
            # Each pipeline looks for its own.
            yield {field: [response.urljoin(address)] for field in ("file_urls", "image_urls")}
