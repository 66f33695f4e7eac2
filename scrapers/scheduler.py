"""Scrapy's scheduler on a `RequestQueue`: a request is acknowledged once all its results are durable."""

import hashlib

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from memeloom.catalog.errors import StoreError
from memeloom.configs.errors import MemeloomError
from memeloom.scrapers import engine_hooks
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import QueuedRequest
from memeloom.scrapers.frontier.forms import BadRequest, to_request, to_stored
from memeloom.scrapers.items import NotLanded
from memeloom.scrapers.outcomes import Done, Failed, Outcome, Released, SetAside
from memeloom.scrapers.queue import Lease, RequestQueue
from memeloom.scrapers.sources.spider import MemeSpider, our_spider


class DurableScheduler(BaseScheduler):
    """The scheduler of one spider; `queue` holds its requests.

    A request is acknowledged when Scrapy has finished with it, unless its callback failed (a later crawl retries it),
    it moved to the dead-letter list, or its items were not stored because the crawl stops.
    """

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self.queue = RequestQueue(spider.config, spider.session, spider.name)
        self._leases: dict[Request, Lease] = {}
        self._outcomes: dict[Request, Outcome] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "DurableScheduler":
        """Create the scheduler of a `MemeSpider`."""
        return cls(crawler, our_spider(crawler))

    def open(self, spider: Spider) -> "Deferred[None]":  # noqa: ARG002 -- Scrapy's signature
        """Open the frontier. Fails with StoreError, ConfigError."""
        self._spider.scheduler, self._spider.queue = self, self.queue
        engine_hooks.on_finished(self._crawler, self._finished)
        self.queue.on_leases(engine_hooks.waker(self._crawler))
        for handler, signal in (
            (self._failed, signals.spider_error),
            (self._failed, signals.item_error),
            (self._item_dropped, signals.item_dropped),
        ):
            self._crawler.signals.connect(handler, signal=signal)
        return deferred_from_coro(self.queue.open())

    def close(self, reason: str) -> "Deferred[None]":  # noqa: ARG002 -- Scrapy's signature
        """Release leases that were not processed."""
        return deferred_from_coro(self.queue.close())

    def enqueue_request(self, request: Request) -> bool:
        """Store a request. Returns False if it cannot be stored; the frontier drops duplicates later."""
        try:
            stored = to_stored(request, self._spider)
            body = stored.text()
        except BadRequest as error:
            # Acknowledge nothing from here on, so that its page is crawled again once the spider is fixed.
            self.queue.fail(error)
            return False
        fingerprint = None if request.dont_filter else self._fingerprint(request)
        wait = request.meta.get("wait", 0.0)
        self.queue.add(QueuedRequest(body, stored.host, fingerprint, request.priority, wait))
        return True

    def next_request(self) -> Request | None:
        """Return a leased request whose host has a free slot, or None."""
        while (lease := self.queue.next()) is not None:
            try:
                request = to_request(lease.request, self._spider)
            except BadRequest as error:
                self.queue.finish(lease, SetAside(str(error)))
                continue
            self._leases[request] = lease
            return request
        return None

    def has_pending_requests(self) -> bool:
        """Return True if any process still has unfinished requests."""
        return self.queue.is_pending()

    def holds(self, request: Request) -> bool:
        """Return whether `request` is a lease in progress."""
        return request in self._leases

    def dead_letter(self, request: Request, reason: str) -> None:
        """Move `request` to the dead-letter list instead of acknowledging it."""
        self._outcomes[request] = SetAside(reason)

    def _finished(self, request: Request) -> None:
        lease = self._leases.pop(request, None)
        if lease is not None:
            self.queue.finish(lease, self._outcomes.pop(request, Done()))

    def _failed(self, failure: Failure, response: Response | Failure | None) -> None:
        """Record a failed callback or item; store failures do not count against the request."""
        if (request := getattr(response, "request", None)) is not None:
            is_ours = isinstance(failure.value, StoreError)
            self._outcomes[request] = Released() if is_ours else Failed(_reason(failure))

    def _item_dropped(self, exception: Exception, response: Response | Failure | None) -> None:
        request = getattr(response, "request", None)
        if request is not None and isinstance(exception, NotLanded):
            self._outcomes.setdefault(request, Released())

    def _fingerprint(self, request: Request) -> bytes | None:
        unique = request.meta.get("unique")
        if unique is not None:
            if request.meta.get("redirect_times"):
                return None  # the same request, redirected
            return hashlib.sha1(f"unique:{unique}".encode(), usedforsecurity=False).digest()[:16]
        return self._crawler.request_fingerprinter.fingerprint(request)[:16]


def scheduler_of(crawler: Crawler) -> DurableScheduler:
    """Return the scheduler of `crawler`. Raises CrawlFailed if it is of another class."""
    scheduler = crawler.engine.scheduler
    if not isinstance(scheduler, DurableScheduler):
        raise CrawlFailed(f"the setting SCHEDULER must be {DurableScheduler.__name__}")
    return scheduler


def _reason(failure: Failure) -> str:
    error = failure.value
    return str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
