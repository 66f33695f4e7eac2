"""What the spiders of one crawl share: the limits, the wish to stop, the tallies and the errors."""

import asyncio
from collections import Counter
from collections.abc import Callable

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Crawl
from memeloom.scrapers.hosts import Hosts


class Session:
    """One crawl. Everything happens on the event loop's thread.

    counts: what was done, by name. reasons: what was not kept, by reason.
    landed: durable memes by source. errors: what makes the crawl fail, by when it happened.
    queue: requests by source that are not finished, in all processes. inherited: how many of them
    an earlier crawl had left. retry_failed: begin with what was set aside, instead of anew.
    hosts: how each host is doing.
    """

    def __init__(self, crawl: Crawl, *, retry_failed: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.landed: Counter[str] = Counter()
        self.queue: dict[str, int] = {}
        self.inherited: dict[str, int] = {}
        self.retry_failed = retry_failed
        self.errors: list[MemeloomError] = []
        self.stopping: str | None = None
        self.hosts = Hosts(crawl.breaker_failures, crawl.breaker_seconds, crawl.breaker_rests)
        self._max_memes = crawl.max_memes
        self._admitted = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._stoppers: list[Callable[[str], None]] = []

    async def admit(self) -> bool:
        """Wait for a place among `max_memes`; False if the crawl stops first."""
        while self.stopping is None:
            if self._max_memes is None or self._admitted < self._max_memes:
                self._admitted += 1
                return True
            await self._change(None)
        return False

    def refuse(self) -> None:
        """An admitted meme is not kept: its place is free again."""
        self._admitted -= 1
        self._wake()

    def land(self, source: str) -> None:
        """An admitted meme is durable; the last of `max_memes` ends the crawl."""
        self.landed[source] += 1
        if self.landed.total() == self._max_memes:
            self.stop("max_memes")

    def stop(self, why: str) -> None:
        """End the crawl cleanly: nothing new is begun, what is under way is finished."""
        if self.stopping is None:
            self.stopping = why
            for stopper in self._stoppers:
                stopper(why)
            self._wake()

    def on_stop(self, stopper: Callable[[str], None]) -> None:
        """Call `stopper` with the reason once the crawl is to stop."""
        self._stoppers.append(stopper)

    async def pause(self, seconds: float) -> bool:
        """Wait; False if the crawl stops meanwhile."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self.stopping is None and (left := end - loop.time()) > 0:
            await self._change(left)
        return self.stopping is None

    async def _change(self, timeout_seconds: float | None) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=timeout_seconds)
        finally:
            self._waiting.discard(future)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
