"""What every spider of memeloom has: the session, the settings, pages that are counted, pictures that are asked for.

A request waits in the frontier as JSON and may come back in another process. So spiders keep nothing in memory
that a later page needs: it travels in `cb_kwargs`, as plain values, and callbacks are public methods.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.python.failure import Failure

from memeloom.catalog.records import Meme, Template, author_hash
from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.items import MemeItem, Picture, TemplateItem
from memeloom.scrapers.reasons import may_pass, why
from memeloom.scrapers.session import Session

# Pictures before pages: what is found is brought home before more is looked for, and the frontier stays short.
PICTURE_PRIORITY = 20
PAGE_PRIORITY = 10


class Desk(Protocol):
    """The part of the frontier that a spider talks to."""

    def set_aside(self, request: Request, reason: str) -> None:
        """Let `request`, which is under way, end in the dead-letter list."""
        ...

    async def marked(self, name: str) -> str | None:
        """The note of that name."""
        ...


class MemeSpider(Spider):
    """A spider that belongs to a session; alone (`scrapy crawl`) it makes its own.

    name: the source of its memes. essential: the selector that its memes come from. desk: its frontier.
    """

    essential: ClassVar[str]
    config: Config
    session: Session
    desk: Desk

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, session: Session | None = None, **kwargs: Any) -> "MemeSpider":
        """The spider with its settings and its session."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.config = crawler.settings["MEMELOOM_CONFIG"]
        spider.session = session or Session(spider.config.crawl)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """The first requests; none if only what was set aside is to be tried again."""
        if not self.session.retry_failed:
            async for request in self.begin():
                yield request

    def begin(self) -> AsyncIterator[Request]:
        """The first requests of a crawl."""
        raise NotImplementedError

    def page(
        self, url: str, callback: Callable[..., Any], *, request: type[Request] = Request, **options: Any
    ) -> Request:
        """A request (of the class `request`) for a page: it counts as one, and so does its failure."""
        options.setdefault("errback", self.failed)
        options.setdefault("priority", PAGE_PRIORITY)
        options["meta"] = {"page": True, **options.get("meta", {})}
        return request(url, callback, **options)

    def picture_request(self, item: MemeItem | TemplateItem) -> Request:
        """The request for the picture of a record, which comes back as an item with its picture.

        It is asked for once in a crawl, on however many pages the record is met. For an item that
        comes with a picture that could not be had, it is the request for the smaller copy.

        Raises:
            ValueError: the address is none on the web.
        """
        keywords: dict[str, Any] = {}
        match item:
            case MemeItem():
                record: Meme | Template = item.meme
                what, url = "meme", item.meme.image_url
                if item.picture is not None:
                    url = item.fallback_url
                elif item.fallback_url:
                    keywords["fallback_url"] = item.fallback_url
            case TemplateItem():
                record, what, url = item.template, "template", item.template.image_url
        copy = "smaller copy of " if isinstance(item, MemeItem) and item.picture is not None else ""
        keywords |= {"what": what, "record": record.model_dump(mode="json", exclude_defaults=True)}
        return Request(
            url or "",
            self.picture,
            errback=self.no_picture,
            priority=PICTURE_PRIORITY,
            meta={"unique": f"{copy}{what} {record.id}", "download_maxsize": self.config.crawl.max_image_bytes},
            cb_kwargs=keywords,
        )

    def picture(
        self, response: Response, what: str, record: dict[str, Any], fallback_url: str | None = None
    ) -> Iterator[MemeItem | TemplateItem]:
        """The record, with the picture that was asked for."""
        declared = (response.headers.get("Content-Type") or b"").decode("latin-1")
        yield self._with_picture(Picture(response.body, declared), what, record, fallback_url)

    def no_picture(self, failure: Failure) -> Iterator[MemeItem | TemplateItem]:
        """The record without its picture. What may pass is set aside, so that it can be tried again."""
        request: Request = failure.request  # type: ignore[attr-defined]
        keywords = request.cb_kwargs
        phrase = self._reason(failure)
        prefix = "image" if keywords["what"] == "meme" else "template image"
        self.session.reasons[f"{prefix}: {phrase}"] += 1
        if may_pass(failure.value) and "fallback_url" not in keywords:
            self.desk.set_aside(request, phrase)
        yield self._with_picture(Picture(None), **keywords)

    def failed(self, failure: Failure) -> None:
        """Count a page that could not be had, after all retries, and set it aside if that may pass."""
        phrase = self._reason(failure)
        self.session.reasons[f"page: {phrase}"] += 1
        if may_pass(failure.value):
            self.desk.set_aside(failure.request, phrase)  # type: ignore[attr-defined]

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

    async def marked(self, name: str) -> str | None:
        """What an item `Mark` of that name noted, in this crawl or an earlier one."""
        return await self.desk.marked(name)

    def _with_picture(
        self, picture: Picture, what: str, record: dict[str, Any], fallback_url: str | None = None
    ) -> MemeItem | TemplateItem:
        if what == "meme":
            return MemeItem(Meme.model_validate(record), picture, fallback_url)
        return TemplateItem(Template.model_validate(record), picture)

    def _reason(self, failure: Failure) -> str:
        error = failure.value or RuntimeError("a failure without a cause")
        phrase = why(error)
        if phrase is None:
            # Scrapy takes the same exception, raised again, for a failed download and only logs it.
            what = str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
            raise CrawlFailed(what) from error
        return phrase


def our_spider(crawler: Crawler) -> MemeSpider:
    """The spider of `crawler`; our Scrapy components work for no other kind."""
    if not isinstance(crawler.spider, MemeSpider):
        raise TypeError(f"{crawler.spider!r} is not a spider of memeloom")
    return crawler.spider
