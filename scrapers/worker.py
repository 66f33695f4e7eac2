"""The crawling process: runs all sources on one event loop, controlled and monitored through a pipe.

A Twisted reactor cannot be restarted, so each crawl gets its own process.
"""

import asyncio
import logging
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.masks import Redactor
from memeloom.configs.schema import Config
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.dead_letters import DeadFilter
from memeloom.scrapers.report.status import CrawlStatus, StatusReader
from memeloom.scrapers.session import CrawlSession

_LOG = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.5
STOP = "stop"


@dataclass(frozen=True, slots=True)
class Report:
    """The progress that the crawling process sends with every heartbeat.

    errors: one line per failed source. stopped: why the crawl ends early. over: this is the last report.
    """

    counts: Counter[str]
    reasons: Counter[str]
    errors: tuple[str, ...] = ()
    stopped: str | None = None
    over: bool = False
    status: CrawlStatus = field(default_factory=CrawlStatus)

    def progress(self) -> tuple[object, ...]:
        """Return a value that changes with every success or failure."""
        return self.counts, self.reasons, self.errors, self.stopped


def crawl_in_process(config: Config, pipe: Connection, log: Path, *, retry_failed: DeadFilter | None = None) -> None:
    """Crawl all configured sources; the entry point of the process.

    The first SIGINT or SIGTERM ends the crawl cleanly, the second ends the process at once.
    """
    redact = Redactor(config)
    _log_to(log, redact)
    if config.crawl.proxy is not None:
        # Scrapy and the browser read the proxy from the environment; nothing else runs in this process.
        os.environ["http_proxy"] = os.environ["https_proxy"] = config.crawl.proxy.get_secret_value()
    from scrapy.utils.log import configure_logging
    from scrapy.utils.reactor import install_reactor

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    configure_logging(install_root_handler=False)
    reactor: Any = sys.modules["twisted.internet.reactor"]
    session = CrawlSession(config.crawl, retry_failed=retry_failed)
    loop = asyncio.get_event_loop()
    crawling = loop.create_task(crawl_sources(config, session, pipe))
    crawling.add_done_callback(lambda _: reactor.stop())
    loop.call_soon(_stop_on_signals, session)
    reactor.run(installSignalHandlers=False)
    if (error := crawling.exception()) is not None:
        _LOG.critical("the crawl crashed", exc_info=error)
        sys.exit(1)


async def crawl_sources(config: Config, session: CrawlSession, pipe: Connection) -> None:
    """Crawl all configured sources on the running loop, whose reactor must be installed; closes `pipe` at the end.

    Sends a `Report` with every heartbeat. Any message on `pipe`, or its end, stops the crawl cleanly.
    """
    from scrapy.crawler import AsyncCrawlerRunner

    from memeloom.scrapers.guard import GuardedResolver
    from memeloom.scrapers.settings import scrapy_settings

    loop, reader, redact = asyncio.get_running_loop(), StatusReader(session), Redactor(config)
    runner = AsyncCrawlerRunner(scrapy_settings(config))
    GuardedResolver.install(runner.settings)
    loop.add_reader(pipe.fileno(), _receive_stop, loop, pipe, session)
    deadline = config.crawl.max_minutes
    timer = None if deadline is None else loop.call_later(60 * deadline, session.stop, "max_minutes")
    tasks = [runner.crawl(source, session=session) for source in config.crawl.sources]
    try:
        running: set[asyncio.Task[None]] = set(tasks)
        while running:
            _send_report(session, reader, pipe, redact)
            _, running = await asyncio.wait(running, timeout=HEARTBEAT_SECONDS)
        session.errors += [_as_ours(error) for task in tasks if (error := task.exception()) is not None]
        _send_report(session, reader, pipe, redact, over=True)
    finally:
        if timer is not None:
            timer.cancel()
        loop.remove_reader(pipe.fileno())
        pipe.close()


def _send_report(
    session: CrawlSession, reader: StatusReader, pipe: Connection, redact: Redactor, *, over: bool = False
) -> None:
    errors = tuple(redact(str(error)) for error in session.errors)
    counts, reasons = session.counts.copy(), Counter({redact(reason): n for reason, n in session.reasons.items()})
    try:
        pipe.send(Report(counts, reasons, errors, session.stopping, over, reader.read(refresh=over)))
    except OSError:
        session.stop("the parent process is gone")


def _receive_stop(loop: asyncio.AbstractEventLoop, pipe: Connection, session: CrawlSession) -> None:
    try:
        pipe.recv()
        session.stop("interrupted")
    except (EOFError, OSError):
        loop.remove_reader(pipe.fileno())
        session.stop("the parent process is gone")


def _stop_on_signals(session: CrawlSession) -> None:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        session.stop("interrupted")

    for number in numbers:
        loop.add_signal_handler(number, stop)


def _as_ours(error: BaseException) -> MemeloomError:
    return error if isinstance(error, MemeloomError) else CrawlFailed(f"{type(error).__name__}: {error}")


class _RedactedFormatter(logging.Formatter):
    """Formats a line of the log, secrets masked."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def _log_to(log: Path, redact: Redactor) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, delay=True, encoding="utf-8")
    handler.setFormatter(_RedactedFormatter(redact))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(capture=True)
