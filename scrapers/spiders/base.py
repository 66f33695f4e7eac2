"""What every spider of memeloom has: the session, the settings, and pages that are counted."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from twisted.python.failure import Failure

from catalog.records import author_hash
from configs.errors import MemeloomError
from configs.schema import Config
from scrapers.errors import CrawlFailed
from scrapers.reasons import why
from scrapers.session import Session


class MemeSpider(Spider):
    """A spider that belongs to a session; alone (`scrapy crawl`) it makes its own.

    name: the source of its memes. essential: the selector that its memes come from.
    """

    essential: ClassVar[str]
    config: Config

    def __init__(self, session: Session | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session = session or Session()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> "MemeSpider":
        """The spider with its settings."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.config = crawler.settings["MEMELOOM_CONFIG"]
        return spider

    def page(
        self, url: str, callback: Callable[..., Any], *, request: type[Request] = Request, **options: Any
    ) -> Request:
        """A request (of the class `request`) for a page: it counts as one, and so does its failure."""
        options.setdefault("errback", self.failed)
        options["meta"] = {"page": True, **options.get("meta", {})}
        return request(url, callback, **options)

    def failed(self, failure: Failure) -> None:
        """Count a page that could not be had, after all retries."""
        error = failure.value or RuntimeError("a failure without a cause")
        phrase = why(error)
        if phrase is None:
            # Scrapy takes the same exception, raised again, for a failed download and only logs it.
            what = str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
            raise CrawlFailed(what) from error
        self.session.reasons[f"page: {phrase}"] += 1

    def skip(self, reasons: dict[str, int]) -> None:
        """Count what a page shows and we do not take."""
        for reason, n in reasons.items():
            self.session.reasons[f"skipped: {reason}"] += n

    def author(self, name: str | None) -> str | None:
        """The salted hash of an author's name if the settings ask for it; the name itself is never kept."""
        crawl = self.config.crawl
        if not name or not crawl.keep_author_hash or crawl.author_salt is None:
            return None
        return author_hash(name, crawl.author_salt.get_secret_value())

    def now(self) -> datetime:
        """The time of a fact."""
        return datetime.now(UTC)


def our_spider(crawler: Crawler) -> MemeSpider:
    """The spider of `crawler`; our Scrapy components work for no other kind."""
    if not isinstance(crawler.spider, MemeSpider):
        raise TypeError(f"{crawler.spider!r} is not a spider of memeloom")
    return crawler.spider
