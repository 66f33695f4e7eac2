"""Image search: what a real browser finds for each query; the words in the pictures are left to OCR."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import TextResponse

from catalog.records import Meme
from scrapers.items import MemeItem
from scrapers.pages import bing
from scrapers.pages.bing import FoundImage
from scrapers.spiders.base import MemeSpider


class ImagesSpider(MemeSpider):
    """One result page a query, fetched by a browser; the pictures themselves go the way of all items."""

    name = "images"
    essential = bing.RESULT

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: set[str] = set()

    async def start(self) -> AsyncIterator[Request]:
        """Search for each query."""
        for query in self.config.crawl.images.queries:
            url = f"{self.config.crawl.images.bing}/images/search?{urlencode({'q': query, 'form': 'HDRSC2'})}"
            yield self.page(url, self.results, meta={"browser": True})

    def results(self, response: TextResponse) -> Iterator[MemeItem]:
        """The pictures of one result page, less those that an earlier query found."""
        found = bing.parse_results(response.text, response.url)
        for image in found[: self.config.crawl.images.results_per_query]:
            if image.image_url not in self.seen:
                self.seen.add(image.image_url)
                yield self.meme(image)

    def meme(self, image: FoundImage) -> MemeItem:
        """The record of a search result; its id is made from the picture's address."""
        return MemeItem(
            Meme(
                id=f"{self.name}:{hashlib.sha256(image.image_url.encode()).hexdigest()[:24]}",
                source=self.name,
                page_url=image.page_url,
                image_url=image.image_url,
                title=image.title,
                fetched_at=self.now(),
            )
        )
