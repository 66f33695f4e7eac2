"""`crawl`: all configured sources into the catalog, in a separate process."""

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

from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Crawl
from memeloom.scrapers.browsers.launch import find_programs
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import DeadRequest, frontier_of
from memeloom.scrapers.frontier.dead_letters import ALL, DeadCounts, DeadFilter, count_dead, dead_letters, drop_dead
from memeloom.scrapers.report.view import View
from memeloom.scrapers.worker import STOP, Report, crawl_in_process

_SILENCE_SECONDS = 120.0
# Longer than the longest Retry-After that is obeyed; a crawl that is stopping does not wait for it.
_STALL_SECONDS = 900.0
_STALL_WHEN_STOPPING_SECONDS = 180.0
_EXIT_SECONDS = 60.0


def crawl(
    config: Config, progress: Progress = SILENT, *, retry_failed: DeadFilter | None = None, fresh: bool = False
) -> Summary:
    """Crawl the configured sources into the catalog, resuming a stopped or killed crawl.

    Running it again creates no duplicates.

    Args:
        config: the sources, the stores and the frontier.
        progress: receives the number of durable memes.
        retry_failed: start with these dead letters instead of the sources' first pages.
        fresh: delete the unfinished requests of the last crawl, and its marks.

    Returns:
        Counts (pages, new, updated and unchanged memes, images, bytes, templates, retries, hosts, unfinished and dead
        requests); the reasons of everything skipped, dropped or failed; the paths of the series and of the report page,
        which also exist after a failed crawl.

    Raises:
        ConfigError: settings that contradict each other.
        StoreError: the catalog or the frontier cannot be opened.
        CrawlFailed: a changed page layout, a source that yields nothing or mostly errors, a store failure, or a crashed
            process. Everything stored until then is kept.
    """
    _check(config.crawl)
    for store in (open_documents(config.store), open_blobs(config.store)):
        store.close()
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            if fresh:
                frontier.forget()
            else:
                frontier.dead(1)  # fails if the server is unreachable
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
    status = last.status
    first = dict.fromkeys(("pages", "memes", "new", "updated", "unchanged", "images", "bytes"), 0)
    return {
        **first,
        **last.counts,
        "received bytes": status.received_bytes,
        "hosts": sum(status.states.values()),
        "hosts given up": status.states.get("given up", 0),
        "requests left": sum(status.queue.values()),
    }


def failed_requests(config: Config, which: DeadFilter = ALL) -> Iterator[tuple[str, DeadRequest]]:
    """Yield the selected dead letters of each source as (source, request). Raises StoreError, ConfigError."""
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            for dead in dead_letters(frontier, which):
                yield source, dead


def count_failed_requests(config: Config, which: DeadFilter = ALL) -> DeadCounts:
    """Count the selected dead letters of all sources. Raises StoreError, ConfigError."""
    return count_dead(dead for _, dead in failed_requests(config, which))


def drop_failed_requests(config: Config, which: DeadFilter = ALL) -> int:
    """Delete the selected dead letters of all sources. Returns their number. Raises StoreError, ConfigError."""
    count = 0
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            count += drop_dead(frontier, which)
    return count


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
    if "images" in settings.sources:
        find_programs(settings.images)


def _run(config: Config, log: Path, view: View, *, retry_failed: DeadFilter | None) -> Report:
    """Start the crawling process, follow it until it exits, and kill it if it does not."""
    process, pipe = _start(config, log, retry_failed=retry_failed)
    try:
        return _follow(process, pipe, view)
    except KeyboardInterrupt:
        _stop(process, pipe, view)
        raise
    finally:
        pipe.close()
        process.join(_EXIT_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _start(config: Config, log: Path, *, retry_failed: DeadFilter | None) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=crawl_in_process,
        args=(config, theirs, log),
        kwargs={"retry_failed": retry_failed},
        daemon=True,
        name="crawl",
    )
    with _ignored_ctrl_c():
        process.start()
    theirs.close()
    return process, ours


@contextmanager
def _ignored_ctrl_c() -> Iterator[None]:
    """Make processes started here ignore Ctrl-C; they are stopped through their pipe, without a traceback."""
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
                f"no heartbeat from the crawling process for {_SILENCE_SECONDS:.0f} s, so it was killed; "
                f"see {view.page}"
            )
        try:
            report: Report = pipe.recv()
        except (EOFError, OSError):
            process.join(_EXIT_SECONDS)
            raise CrawlFailed(
                f"the crawling process crashed (exit code {process.exitcode}), see {view.page}; "
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
                f"no progress for {time.monotonic() - moved:.0f} s, so the crawl was killed; kept: "
                f"{report.counts['memes']} memes; see {view.page}"
            )


def _stop(process: BaseProcess, pipe: Connection, view: View) -> None:
    try:
        pipe.send(STOP)
        _follow(process, pipe, view)
    except (KeyboardInterrupt, OSError, CrawlFailed):
        process.kill()
