"""One asyncio reactor for all crawls of a test process, because a Twisted reactor cannot be restarted."""

import asyncio
import contextlib
import gc
import logging
import multiprocessing
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from memeloom.configs.schema import Config
from memeloom.scrapers.frontier.dead_letters import DeadFilter
from memeloom.scrapers.session import CrawlSession
from memeloom.scrapers.worker import crawl_sources

T = TypeVar("T")


class CrawlInThread:
    """A crawl on the shared reactor that looks like the process it replaces."""

    exitcode = 0

    def __init__(self, config: Config, log: Path, *, retry_failed: DeadFilter | None) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._future = on_reactor(_crawl(config, theirs, log, retry_failed=retry_failed))

    def is_alive(self) -> bool:
        """Return whether the crawl is still running."""
        return not self._future.done()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the crawl to end. Raises what it raised."""
        with contextlib.suppress(TimeoutError, CancelledError):
            self._future.result(timeout)

    def kill(self) -> None:
        """End the crawl as a test's failure would."""
        self._future.cancel()


def start_in_thread(config: Config, log: Path, *, retry_failed: DeadFilter | None) -> tuple[CrawlInThread, Connection]:
    """Take the place of `memeloom.scrapers.crawl._start`."""
    process = CrawlInThread(config, log, retry_failed=retry_failed)
    return process, process.pipe


def on_reactor(coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine on the shared reactor, which the first call starts in a daemon thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    started: Future[asyncio.AbstractEventLoop] = Future()

    def run() -> None:
        from scrapy.utils.reactor import install_reactor

        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
        started.set_result(asyncio.get_event_loop())
        reactor: Any = sys.modules["twisted.internet.reactor"]
        reactor.run(installSignalHandlers=False)

    threading.Thread(target=run, name="reactor", daemon=True).start()
    return started.result(60)


async def _crawl(config: Config, pipe: Connection, log: Path, *, retry_failed: DeadFilter | None) -> None:
    handler = logging.FileHandler(log, delay=True, encoding="utf-8")
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        await crawl_sources(config, CrawlSession(config.crawl, retry_failed=retry_failed), pipe)
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
        gc.unfreeze()
