"""`crawl`: all configured sources into the catalog, in a process of its own."""

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from memeloom.catalog.blobs import open_blobs
from memeloom.catalog.documents import open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Crawl
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import Dead, frontier_of
from memeloom.scrapers.report.view import View
from memeloom.scrapers.worker import STOP, Report, crawl_in_process

_SILENCE_SECONDS = 120.0
# Longer than the longest wait that a site may ask for; a crawl that is to stop has no such excuse.
_STALL_SECONDS = 900.0
_STALL_WHEN_STOPPING_SECONDS = 180.0
_FAREWELL_SECONDS = 60.0


def crawl(config: Config, progress: Progress, *, retry_failed: bool = False, fresh: bool = False) -> Summary:
    """Crawl the configured sources into the catalog, going on where the last crawl was stopped or killed.

    Counts: pages, memes (and how many of them were new, updated, unchanged), images, bytes, templates, retries,
    hosts, requests left and set aside. Reasons: everything that was skipped, dropped or failed.
    Outputs: the series and the page with its plots, left behind by a crawl that fails too. Running it again
    doubles nothing.

    retry_failed: begin with the requests that were set aside, instead of anew.
    fresh: forget what is left of the last crawl, and what it noted for the next.

    Raises:
        ConfigError: settings that contradict each other.
        StoreError: the catalog cannot be opened.
        CrawlFailed: a page layout that is not understood, a source that yields nothing or mostly errors, a
            store that fails meanwhile, a crawling process that dies. What was gathered until then is kept.
    """
    _check(config.crawl)
    for store in (open_documents(config.store), open_blobs(config.store)):
        store.close()
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            if fresh:
                frontier.forget()
    began = time.monotonic()
    stem = Path(config.runs) / f"crawl-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    log = stem.with_name(f"{stem.name}.log")
    with View(stem, config.crawl, progress) as view:
        last = _run(config, log, view, retry_failed=retry_failed)
        summary = Summary(
            stage="crawl",
            counts=_totals(last),
            reasons=dict((+last.reasons).most_common()),
            outputs={"report": str(view.page), "series": str(view.series)}
            | ({"log": str(log)} if log.exists() else {}),
            seconds={"total": time.monotonic() - began},
        )
        if last.errors:
            more = f" (and {len(last.errors) - 1} more, see {log})" if len(last.errors) > 1 else ""
            error = CrawlFailed(f"{last.errors[0]}{more}; kept: {last.counts['memes']} memes; see {view.page}")
            error.summary = summary
            raise error
    return summary


def _totals(last: Report) -> dict[str, int]:
    vitals = last.vitals
    first = dict.fromkeys(("pages", "memes", "new", "updated", "unchanged", "images", "bytes"), 0)
    return {
        **first,
        **last.counts,
        "received bytes": vitals.received_bytes,
        "hosts": sum(vitals.states.values()),
        "hosts given up": vitals.states.get("given up", 0),
        "requests left": sum(vitals.queue.values()),
    }


def set_aside(config: Config) -> Iterator[tuple[str, Dead]]:
    """The requests that were set aside, by source. Raises StoreError, ConfigError."""
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            for dead in frontier.dead():
                yield source, dead


def _check(settings: Crawl) -> None:
    if not settings.sources:
        raise ConfigError("crawl.sources: name at least one of imgflip, reddit, images")
    if settings.keep_author_hash and settings.author_salt is None:
        raise ConfigError("crawl.author_salt: needed because crawl.keep_author_hash is true")
    if "reddit" in settings.sources and not (settings.reddit.client_id and settings.reddit.client_secret):
        raise ConfigError(
            "crawl.reddit.client_id, client_secret: needed for the source reddit; "
            "register an application of type script at https://www.reddit.com/prefs/apps"
        )


def _run(config: Config, log: Path, view: View, *, retry_failed: bool) -> Report:
    """Start the process, follow it to its end, and let it go on no account."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=crawl_in_process,
        args=(config, theirs, log),
        kwargs={"retry_failed": retry_failed},
        daemon=True,
        name="crawl",
    )
    with _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    try:
        return _follow(process, ours, view)
    except KeyboardInterrupt:
        _say_goodbye(process, ours, view)
        raise
    finally:
        ours.close()
        process.join(_FAREWELL_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started here hears of Ctrl-C by its pipe; before it listens it would die of it, with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(process: BaseProcess, pipe: Connection, view: View) -> Report:
    before, moved = None, time.monotonic()
    while True:
        if not pipe.poll(_SILENCE_SECONDS):
            process.kill()
            raise CrawlFailed(
                f"the crawling process said nothing for {_SILENCE_SECONDS:.0f} s and was ended; see {view.page}"
            )
        try:
            report: Report = pipe.recv()
        except (EOFError, OSError):
            process.join(_FAREWELL_SECONDS)
            raise CrawlFailed(
                f"the crawling process died (exit code {process.exitcode}), see {view.page}; "
                f"what it had acknowledged is kept"
            ) from None
        view.see(report)
        if report.over:
            return report
        if report.progress() != before:
            before, moved = report.progress(), time.monotonic()
        elif time.monotonic() - moved > (_STALL_WHEN_STOPPING_SECONDS if report.stopped else _STALL_SECONDS):
            process.kill()
            raise CrawlFailed(
                f"nothing moved for {time.monotonic() - moved:.0f} s and the crawl was ended; kept:"
                f" {report.counts['memes']} memes; see {view.page}"
            )


def _say_goodbye(process: BaseProcess, pipe: Connection, view: View) -> None:
    """Ask the process to end cleanly; a second Ctrl-C ends it at once."""
    try:
        pipe.send(STOP)
        _follow(process, pipe, view)
    except (KeyboardInterrupt, OSError, CrawlFailed):
        process.kill()
