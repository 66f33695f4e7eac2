"""A Scrapy scheduler on a durable frontier: a request is acknowledged once all its results are durable.

The event loop never blocks on the frontier. Changes are batched while one exchange runs in a thread; the next exchange
applies them atomically and in order. A request is therefore acknowledged together with, or after, the requests that its
callback yielded and its items.
"""

import asyncio
import hashlib
import math
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from memeloom.catalog.errors import StoreError
from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.scrapers.aio import in_thread
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import (
    SUSPECT,
    Changes,
    Frontier,
    Granted,
    QueuedRequest,
    RequestLease,
    frontier_of,
)
from memeloom.scrapers.frontier.forms import BadRequest, to_body, to_request
from memeloom.scrapers.hosts import host_of
from memeloom.scrapers.items import NotLanded
from memeloom.scrapers.spiders.base import MemeSpider, our_spider

# Prefetched leases: enough to keep the downloader busy during an exchange, few enough to share a short queue.
_READY = 16
_MOST_READY = 4 * _READY
# Changes are batched for this long, or up to this many, while no new leases are needed.
_GATHER_SECONDS = 0.05
_GATHER_MOST = 256
_HEARTBEATS_PER_LEASE = 6


class DurableScheduler(BaseScheduler):
    """The scheduler of one spider.

    A request is acknowledged when Scrapy has finished with it, unless its callback failed (a later crawl retries it),
    it moved to the dead-letter list, or its items were not stored because the crawl stops.
    """

    _frontier: Frontier
    _heart: asyncio.TimerHandle

    def __init__(self, crawler: Crawler, spider: MemeSpider) -> None:
        self._crawler = crawler
        self._spider = spider
        self._config: Config = crawler.settings["MEMELOOM_CONFIG"]
        self._per_host = 2 * self._config.crawl.concurrency_per_host
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="frontier")
        self._changes = Changes()
        self._ready: deque[tuple[RequestLease, Request]] = deque()
        self._held: dict[Request, RequestLease] = {}
        self._active: Counter[str] = Counter()
        self._rests: dict[str, float] = {}
        self._outcomes: dict[Request, tuple[str, str]] = {}
        self._suspect: int | None = None
        self._unfinished = 1
        # Number of our requests that were new to the frontier.
        self._brought = 0
        # When to exchange next: for any request, and for requests of hosts that were not busy.
        self._dry_until = 0.0
        self._alone_until = 0.0
        self._exchanging: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._broken = False
        self._closed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "DurableScheduler":
        """Create the scheduler of a `MemeSpider`."""
        return cls(crawler, our_spider(crawler))

    def open(self, spider: Spider) -> "Deferred[None]":  # noqa: ARG002 -- Scrapy's signature
        """Open the frontier. Fails with StoreError, ConfigError."""
        self._spider.scheduler = self
        self._slot: Any = self._crawler.engine._slot  # noqa: SLF001 -- see _follow
        self._follow(self._slot)
        for handler, signal in (
            (self._failed, signals.spider_error),
            (self._failed, signals.item_error),
            (self._item_dropped, signals.item_dropped),
        ):
            self._crawler.signals.connect(handler, signal=signal)
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> "Deferred[None]":  # noqa: ARG002 -- Scrapy's signature
        """Release leases that were not processed."""
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """Store a request. Returns False if it cannot be stored; the frontier drops duplicates later."""
        try:
            self._changes.added.append(self._queued(request))
        except BadRequest as error:
            # Acknowledge nothing from here on, so that its page is crawled again once the spider is fixed.
            self._fail(error)
            return False
        self._exchange_if_needed()
        return True

    def next_request(self) -> Request | None:
        """Return a leased request whose host has a free slot, or None."""
        self._exchange_if_needed()
        now = self._now()
        for place, (lease, request) in enumerate(self._ready):
            host = host_of(request)
            if self._takes_one(host, now):
                del self._ready[place]
                self._held[request] = lease
                self._active[host] += 1
                return request
        return None

    def has_pending_requests(self) -> bool:
        """Return True if any process still has unfinished requests."""
        if self._broken:
            return False
        return bool(self._unfinished or len(self._changes) or self._ready or self._exchanging)

    def holds(self, request: Request) -> bool:
        """Return whether `request` is a lease in progress."""
        return request in self._held

    def rest(self, host: str, seconds: float) -> None:
        """Delay all requests to `host` by `seconds`, in every process."""
        self._rests[host] = max(self._rests.get(host, 0.0), self._now() + seconds)
        self._changes.rests[host] = max(self._changes.rests.get(host, 0.0), seconds)
        self._exchange_if_needed()

    def dead_letter(self, request: Request, reason: str) -> None:
        """Move `request` to the dead-letter list instead of acknowledging it."""
        self._outcomes[request] = ("dead", reason)

    def mark(self, name: str, value: str) -> None:
        """Store a value for later crawls, atomically with the changes of the current page."""
        self._changes.marks[name] = value
        self._exchange_if_needed()

    async def marked(self, name: str) -> str | None:
        """Return the value stored by `mark`. Raises StoreError."""
        return await in_thread(self._thread, self._frontier.mark, name)

    async def _open(self) -> None:
        self._frontier = await in_thread(self._thread, frontier_of, self._config, self._spider.name)
        inherited = await in_thread(self._thread, self._frontier.open)
        session = self._spider.session
        if session.retry_failed:
            session.counts["requests tried again"] += await in_thread(self._thread, self._frontier.retry_dead)
        session.inherited[self._spider.name] = inherited
        self._heartbeat()

    async def _close(self) -> None:
        # An exchange after the last would make this process an owner again.
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._heart.cancel()
        if self._exchanging is not None:
            await self._exchanging
        try:
            if not self._broken:
                await self._exchange(0)
                await in_thread(self._thread, self._frontier.close)
        except StoreError as error:
            self._fail(error)
        finally:
            self._thread.shutdown(wait=False)

    def _heartbeat(self) -> None:
        """Renew the leases, and ask for requests that other processes released."""
        seconds = self._config.crawl.lease_seconds / _HEARTBEATS_PER_LEASE
        self._heart = asyncio.get_running_loop().call_later(seconds, self._heartbeat)
        self._start_exchange()

    def _follow(self, slot: Any) -> None:
        """Call `_finished` when the engine has finished with a request; Scrapy has no signal for that."""
        remove = slot.remove_request

        def removed(request: Request) -> None:
            remove(request)
            self._finished(request)

        slot.remove_request = removed

    def _finished(self, request: Request) -> None:
        lease = self._held.pop(request, None)
        if lease is None:
            return
        self._active[host_of(request)] -= 1
        if lease.id == self._suspect:
            self._suspect = None
        match self._outcomes.pop(request, ("done", "")):
            case "done", _:
                self._changes.done.append(lease.id)
            case "released", _:
                self._changes.released.append(lease.id)
            case "failed", reason:
                self._changes.failed.append((lease.id, reason))
            case _, reason:
                self._changes.dead.append((lease.id, reason))
        self._exchange_if_needed()

    def _failed(self, failure: Failure, response: Response | Failure | None) -> None:
        """Record a failed callback or item; store failures do not count against the request."""
        if (request := getattr(response, "request", None)) is None:
            return
        if isinstance(failure.value, StoreError):
            self._outcomes[request] = ("released", "")
        else:
            self._outcomes[request] = ("failed", _reason(failure))

    def _item_dropped(self, exception: Exception, response: Response | Failure | None) -> None:
        request = getattr(response, "request", None)
        if request is not None and isinstance(exception, NotLanded):
            self._outcomes.setdefault(request, ("released", ""))

    def _queued(self, request: Request) -> QueuedRequest:
        return QueuedRequest(
            to_body(request, self._spider),
            host_of(request),
            None if request.dont_filter else self._fingerprint(request),
            request.priority,
            request.meta.get("wait", 0.0),
        )

    def _fingerprint(self, request: Request) -> bytes | None:
        unique = request.meta.get("unique")
        if unique is not None:
            if request.meta.get("redirect_times"):
                return None  # the same request, redirected
            return hashlib.sha1(f"unique:{unique}".encode(), usedforsecurity=False).digest()[:16]
        return self._crawler.request_fingerprinter.fingerprint(request)[:16]

    def _want(self) -> int:
        stopping = self._spider.session.stopping is not None or self._slot.closing is not None
        if stopping or self._suspect is not None or len(self._ready) >= _MOST_READY:
            return 0
        if len(self._ready) < _READY // 2:
            return _READY - len(self._ready)
        now = self._now()
        if now < self._alone_until or any(self._takes_one(host_of(request), now) for _, request in self._ready):
            return 0
        return _READY

    def _takes_one(self, host: str, now: float) -> bool:
        return self._active[host] < self._per_host and self._rests.get(host, 0.0) <= now

    def _exchange_if_needed(self) -> None:
        """Start an exchange if leases are needed or many changes wait; otherwise schedule one for the changes."""
        if self._exchanging is not None or self._broken or self._closed:
            return
        news = bool(self._changes.added) or self._now() >= self._dry_until
        if len(self._changes) >= _GATHER_MOST or (news and self._want()):
            self._start_exchange()
        elif len(self._changes):
            self._later(_GATHER_SECONDS)

    def _later(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._start_exchange)

    def _start_exchange(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._exchanging is None and not self._broken and not self._closed:
            self._exchanging = asyncio.create_task(self._exchange_once())

    async def _exchange_once(self) -> None:
        try:
            await self._exchange(self._want())
        except StoreError as error:
            self._fail(error)
        finally:
            self._exchanging = None
        if not self._broken and not self._closed:
            self._exchange_if_needed()
            self._wake_later()
        self._slot.nextcall.schedule()

    def _wake_later(self) -> None:
        """Schedule an exchange for when the frontier may have requests, or the backoff of a local host ends."""
        if self._exchanging is not None:
            return
        now = self._now()
        rested = [self._rests.get(host_of(request), 0.0) for _, request in self._ready] if self._rests else []
        times = [at for at in (self._dry_until, self._alone_until, *rested) if now < at < math.inf]
        if times:
            self._later(min(times) - now)

    async def _exchange(self, want: int) -> None:
        changes, self._changes = self._changes, Changes()
        busy = self._busy_hosts()
        alone = not self._held and not self._ready
        granted = await in_thread(self._thread, self._frontier.exchange, changes, want, busy, alone=alone)
        self._brought += len(changes.added) - granted.known
        if granted.shared or (granted.known and not self._brought):
            # Other processes crawl too, so finding nothing here does not mean that the site has nothing.
            inherited = self._spider.session.inherited
            inherited[self._spider.name] = max(1, inherited[self._spider.name])
        self._take(granted, busy)

    def _busy_hosts(self) -> set[str]:
        """Return the hosts without a free slot and with enough prefetched requests."""
        now = self._now()
        waiting = Counter(host_of(request) for _, request in self._ready)
        return {host for host, n in waiting.items() if n >= _READY // 2 and not self._takes_one(host, now)}

    def _take(self, granted: Granted, busy: set[str]) -> None:
        session = self._spider.session
        if granted.lost:
            self._ready.clear()
            if self._suspect not in {lease.id for lease in self._held.values()}:
                self._suspect = None
        for lease in granted.leases:
            if lease.tries >= SUSPECT:
                self._suspect = lease.id
            try:
                self._ready.append((lease, to_request(lease.body, self._spider)))
            except BadRequest as error:
                self._suspect = None
                self._changes.dead.append((lease.id, str(error)))
        self._unfinished = granted.unfinished
        # With nothing unfinished anywhere, only our own changes can add requests.
        dry_until = self._now() + granted.next_seconds if granted.unfinished else math.inf
        if busy:
            self._alone_until = dry_until
        else:
            self._dry_until = dry_until
        session.queue[self._spider.name] = granted.unfinished
        if granted.known:
            session.reasons["skipped: seen before in this crawl"] += granted.known
        if granted.set_aside:
            session.counts["requests set aside"] += granted.set_aside

    def _fail(self, error: MemeloomError) -> None:
        """Stop the crawl; unacknowledged requests return in the next one."""
        self._broken = True
        self._spider.session.errors.append(error)
        self._spider.session.stop("error")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def scheduler_of(crawler: Crawler) -> DurableScheduler:
    """Return the scheduler of `crawler`. Raises CrawlFailed if it is of another class."""
    scheduler = crawler.engine.scheduler
    if not isinstance(scheduler, DurableScheduler):
        raise CrawlFailed(f"the setting SCHEDULER must be {DurableScheduler.__name__}")
    return scheduler


def _reason(failure: Failure) -> str:
    error = failure.value
    return str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
