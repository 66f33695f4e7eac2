"""Watches one spider: counts its pages, and turns its failures into errors of the crawl."""

import asyncio
import gc
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from twisted.python.failure import Failure

from memeloom.configs.errors import MemeloomError
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.health import Health
from memeloom.scrapers.hosts import host_of
from memeloom.scrapers.pages.layout import LayoutChanged
from memeloom.scrapers.reasons import why
from memeloom.scrapers.spiders.base import MemeSpider, our_spider


class Watch:
    """The extension that ends a spider at its first error, or when it is not well any more (`health.py`).

    When a store fails the whole crawl ends.
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self._health = Health(spider.name, crawler.settings["MEMELOOM_CONFIG"].crawl)
        self._failed = False
        self._opened = False
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Watch":
        """Connect to the signals of one spider, which must be one of ours."""
        watch = cls(crawler, our_spider(crawler))
        for handler, signal in (
            (watch.opened, signals.spider_opened),
            (watch.page, signals.response_received),
            (watch.spider_failed, signals.spider_error),
            (watch.item_failed, signals.item_error),
            (watch.closed, signals.spider_closed),
        ):
            crawler.signals.connect(handler, signal=signal)
        watch._spider.session.on_stop(watch.close)
        return watch

    def opened(self) -> None:
        """Learn how each request ends, after all retries and redirects; Scrapy has no signal for that."""
        scraper: Any = self._crawler.engine.scraper
        enqueue = scraper.enqueue_scrape

        def ended(result: Response | Failure, request: Request) -> Any:
            self._ended(result, request)
            return enqueue(result, request)

        scraper.enqueue_scrape = ended
        self._opened = True
        # What is loaded by now stays; looking through it again and again took 5 % of a crawl of pictures.
        gc.freeze()
        if self._spider.session.stopping is not None:
            # Scrapy cannot close what it is about to open.
            self.close(self._spider.session.stopping)

    def page(self, response: Response) -> None:
        """Count what the spider asked for; pictures and robots.txt are not its pages."""
        if response.request is not None and "page" in response.request.meta:
            self._spider.session.counts["pages"] += 1

    def page_read(self, callback: str, url: str, *, empty: bool) -> None:
        """A page that should show memes has been read."""
        self._complain(self._health.read(callback, url, empty=empty))

    def spider_failed(self, failure: Failure, response: Response | None) -> None:
        """A parser, or the spider itself, raised: what it yields from here on cannot be trusted."""
        error = failure.value
        if not isinstance(error, MemeloomError):
            where = f" at {response.url}" if response is not None else ""
            error = CrawlFailed(f"{self._spider.name}: {type(error).__name__}: {error}{where}")
        self._fail(error)
        self.close("layout changed" if isinstance(error, LayoutChanged) else "error")

    def item_failed(self, failure: Failure) -> None:
        """The catalog does not take what is gathered: no spider can go on."""
        error = failure.value
        if not isinstance(error, MemeloomError):
            error = CrawlFailed(f"{self._spider.name}: {type(error).__name__}: {error}")
        self._fail(error)
        self._spider.session.stop("error")

    def closed(self, reason: str) -> None:
        """A spider that came to its end with nothing in its hands has failed."""
        session = self._spider.session
        anew = not session.inherited.get(self._spider.name) and not session.retry_failed
        if reason == "finished" and anew and not self._failed and not session.landed[self._spider.name]:
            why = ", ".join(f"{reason} ({n})" for reason, n in (+session.reasons).most_common(4))
            self._fail(
                CrawlFailed(
                    f"{self._spider.name}: not one meme found: {self._spider.essential!r} gave nothing "
                    f"on {session.counts['pages']} pages{f'; {why}' if why else ''}"
                )
            )

    def close(self, why: str) -> None:
        """End this spider cleanly: what is under way is finished."""
        if self._opened and self._closing is None and self._crawler.engine.spider is not None:
            self._closing = asyncio.ensure_future(self._crawler.engine.close_spider_async(reason=why))

    def _ended(self, result: Response | Failure, request: Request) -> None:
        session = self._spider.session
        if session.stopping is not None or self._closing is not None or session.retry_failed:
            return  # what is cut short, or known to fail, says nothing about the site
        if "page" in request.meta:
            kind = "pages"
        elif getattr(request.callback, "__name__", "") == "picture":
            kind = "pictures"
        else:
            return
        self._complain(self._health.ended(kind, host_of(request), _reason(result, kind)))

    def _complain(self, complaint: str | None) -> None:
        if complaint is not None and self._closing is None:
            self._fail(CrawlFailed(complaint))
            self.close("not well")

    def _fail(self, error: MemeloomError) -> None:
        self._failed = True
        self._spider.session.errors.append(error)


def _reason(result: Response | Failure, kind: str) -> str | None:
    """Why a request failed in the end; None if it did not."""
    if isinstance(result, Failure):
        return (result.value and why(result.value)) or type(result.value).__name__
    if not 200 <= result.status < 300:
        return f"HTTP {result.status}"
    return "a page instead of a picture" if kind == "pictures" and isinstance(result, HtmlResponse) else None
