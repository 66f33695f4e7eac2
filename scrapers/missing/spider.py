"""The spider of `memeloom fetch`, which requests no page."""

from memeloom.catalog.documents import FETCH
from memeloom.scrapers.sources.spider import MemeSpider


class FetchSpider(MemeSpider):
    """The pictures that the catalog knows by address only; `CatalogScan` adds their requests to the queue."""

    name = FETCH
    essential = "image_url"
    may_find_nothing = True
