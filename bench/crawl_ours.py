"""The spiders of `bench.crawl_plain` on memeloom's durable frontier."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

from scrapy import Request
from scrapy.http import Response

from bench.crawl_plain import links, units
from memeloom.catalog.records import Meme
from memeloom.scrapers.items import MemeItem
from memeloom.scrapers.sources.spider import MemeSpider


class DurablePages(MemeSpider):
    """Crawls all pages of a site from `start_url`; items are dropped."""

    name = "bench"
    essential = "div.unit"
    start_url: str

    async def start(self) -> AsyncIterator[Request]:
        """Yield the first page."""
        yield self.page(self.start_url, self.parse)

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        """Yield the memes of a page and requests for its links."""
        yield from units(response)
        for link in links(response):
            yield self.page(link, self.parse)


class DurablePictures(MemeSpider):
    """Crawls the pictures of some lists; each becomes a meme in the catalog."""

    name = "bench"
    essential = "a list"
    start_url: str
    lists: int

    async def start(self) -> AsyncIterator[Request]:
        """Yield the lists."""
        for number in range(self.lists):
            yield self.page(f"{self.start_url}{number}", self.parse)

    def parse(self, response: Response) -> Iterator[MemeItem]:
        """Yield a meme per picture, with the facts of a listing."""
        for address in response.text.split():
            key = address.rpartition("/")[2].partition(".")[0]
            yield MemeItem(
                Meme(
                    id=f"bench:{key}",
                    source="bench",
                    page_url=response.url,
                    image_url=response.urljoin(address),
                    title=f"Picture {key}",
                    boxes=("when the list is long", "and every picture lands"),
                    score=int(key),
                    fetched_at=datetime.now(UTC),
                )
            )
