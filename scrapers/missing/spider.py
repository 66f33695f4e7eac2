"""The spider of `memeloom fetch`, which requests no page."""

from collections.abc import AsyncIterator

from scrapy import Request

from memeloom.catalog.documents import FETCH
from memeloom.scrapers.sources.spider import MemeSpider


class FetchSpider(MemeSpider):
    """The pictures that the catalog knows by address only; `CatalogScan` adds their requests to the queue."""

    name = FETCH
    essential = "image_url"
    may_find_nothing = True

    async def begin(self) -> AsyncIterator[Request]:
        """Yield nothing."""
        for request in list[Request]():
            yield request
