"""The process that crawls: one event loop, all sources side by side, told and heard through a pipe.

A Twisted reactor cannot be started twice, so each crawl has a process of its own.
"""

import asyncio
import logging
import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.report.vitals import Pulse, Vitals
from memeloom.scrapers.session import Session

HEARTBEAT_SECONDS = 0.5
STOP = "stop"


@dataclass(frozen=True, slots=True)
class Report:
    """What the crawling process tells: how far it is, and at last how it ended.

    errors: one line each, of the sources that have failed so far. over: this is the last report.
    """

    counts: Counter[str]
    reasons: Counter[str]
    errors: tuple[str, ...] = ()
    stopped: str | None = None
    over: bool = False
    vitals: Vitals = field(default_factory=Vitals)

    def progress(self) -> tuple[object, ...]:
        """What changes when something gets done, or fails."""
        return self.counts, self.reasons, self.errors, self.stopped


@dataclass(slots=True)
class _Crawl:
    config: Config
    pipe: Connection
    session: Session
    pulse: Pulse
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def report(self, *, over: bool = False) -> None:
        session = self.session
        errors = tuple(str(error) for error in session.errors)
        counts, reasons, vitals = session.counts.copy(), session.reasons.copy(), self.pulse.take(anew=over)
        try:
            self.pipe.send(Report(counts, reasons, errors, session.stopping, over, vitals))
        except OSError:
            session.stop("whoever asked for the crawl is gone")


def crawl_in_process(config: Config, pipe: Connection, log: Path, *, retry_failed: bool = False) -> None:
    """Crawl all configured sources; the entry point of the process.

    `STOP` through `pipe`, its end, SIGINT and SIGTERM each end the crawl cleanly; a second signal ends it at once.
    """
    _log_to(log)
    if config.crawl.proxy is not None:
        # Where Scrapy, and the browser with it, look for a proxy. This process crawls and does nothing else.
        os.environ["http_proxy"] = os.environ["https_proxy"] = config.crawl.proxy.get_secret_value()
    from scrapy.crawler import AsyncCrawlerProcess

    from memeloom.scrapers.settings import scrapy_settings

    session = Session(config.crawl, retry_failed=retry_failed)
    crawl = _Crawl(config, pipe, session, Pulse(session))
    process = AsyncCrawlerProcess(scrapy_settings(config) | {"LOG_INSTALL_ROOT_HANDLER": False})
    crawl.tasks = [process.crawl(source, session=crawl.session) for source in config.crawl.sources]
    loop = asyncio.get_event_loop()
    loop.call_soon(_attend, crawl)
    process.start(install_signal_handlers=False)
    for task in crawl.tasks:
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None:
            if not isinstance(error, MemeloomError):
                error = CrawlFailed(f"{type(error).__name__}: {error}")
            crawl.session.errors.append(error)
    crawl.report(over=True)


def _attend(crawl: _Crawl) -> None:
    """Once the loop runs: listen for the end, keep the deadline, tell how far we are."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupted, crawl.session)
    if crawl.config.crawl.max_minutes is not None:
        loop.call_later(60 * crawl.config.crawl.max_minutes, crawl.session.stop, "max_minutes")
    threading.Thread(target=_listen, args=(crawl, loop), daemon=True).start()
    _beat(crawl, loop)


def _beat(crawl: _Crawl, loop: asyncio.AbstractEventLoop) -> None:
    crawl.report()
    loop.call_later(HEARTBEAT_SECONDS, _beat, crawl, loop)


def _listen(crawl: _Crawl, loop: asyncio.AbstractEventLoop) -> None:
    try:
        crawl.pipe.recv()
    except (EOFError, OSError):
        why = "whoever asked for the crawl is gone"
    else:
        why = "interrupted"
    if not loop.is_closed():
        loop.call_soon_threadsafe(crawl.session.stop, why)


def _interrupted(session: Session) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    session.stop("interrupted")


def _log_to(log: Path) -> None:
    """Warnings and worse go to a file, which is made when there is something to write."""
    log.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(capture=True)
