"""`crawl`: all configured sources into the catalog, in this process or in one of its own."""

import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.request import getproxies

from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.fields import proxy_address
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Crawl
from memeloom.configs.sources import known_sources
from memeloom.scrapers.addresses import allowed
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import DeadRequest, frontier_of
from memeloom.scrapers.frontier.dead_letters import ALL, DeadCounts, DeadFilter, count_dead, dead_letters, drop_dead
from memeloom.scrapers.in_thread import ThreadCrawl
from memeloom.scrapers.report.view import View
from memeloom.scrapers.spawned import SpawnedCrawl
from memeloom.scrapers.worker import Report

_SILENCE_SECONDS = 120.0
# Longer than the longest Retry-After that is obeyed; a crawl that is stopping does not wait for it.
_STALL_SECONDS = 900.0
_STALL_WHEN_STOPPING_SECONDS = 180.0


class Running(Protocol):
    """A crawl that has been started."""

    def receive(self, seconds: float) -> Report:
        """Return the next report. Raises TimeoutError, and EOFError if the crawl has crashed."""

    def stop(self) -> None:
        """Ask the crawl to end cleanly."""

    def kill(self) -> None:
        """End the crawl at once; its requests return to the queue when their leases expire."""

    def close(self) -> None:
        """Wait for the end."""


def crawl(
    config: Config,
    progress: Progress = SILENT,
    *,
    retry_failed: DeadFilter | None = None,
    fresh: bool = False,
    spawned: bool = False,
) -> Summary:
    """Crawl the configured sources into the catalog, resuming a stopped or killed crawl.

    Running it again creates no duplicates. Ctrl-C (in a notebook: Interrupt) ends it cleanly.

    Args:
        config: the sources, the stores and the frontier.
        progress: receives the number of durable memes.
        retry_failed: start with these dead letters instead of the sources' first pages.
        fresh: delete the unfinished requests of the last crawl, and its marks.
        spawned: crawl in a process of its own, which can be killed if it hangs, instead of a thread of this one.

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
        last = _run((SpawnedCrawl if spawned else ThreadCrawl)(config, log, retry_failed=retry_failed), view)
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
        known = ", ".join(f"{name} ({source.about})" for name, source in known_sources().items())
        raise ConfigError(f"crawl.sources: name at least one of {known}")
    _check_network(settings)
    if settings.keep_author_hash and settings.author_salt is None:
        raise ConfigError("crawl.author_salt: needed because crawl.keep_author_hash is true")
    for source in settings.sources:
        known_sources()[source].check(settings)


def _check_network(settings: Crawl) -> None:
    if settings.ca is not None:
        try:
            ssl.create_default_context(cafile=settings.ca)
        except (OSError, ssl.SSLError) as error:
            problem = "not a PEM file of certificates" if Path(settings.ca).is_file() else "no such file"
            raise ConfigError(f"crawl.ca: {problem}: {settings.ca}") from error
    try:
        allowed(settings.allow_hosts)
    except ValueError:
        raise ConfigError("crawl.allow_hosts: write hosts without scheme and port, as [localhost, 10.0.0.7]") from None
    if settings.proxy is None:
        for scheme in {"http", "https"} & (proxies := getproxies()).keys():
            url = proxies[scheme]
            try:
                proxy_address(url if "://" in url else f"http://{url}")
            except ValueError as error:
                raise ConfigError(f"environment variable {scheme}_proxy: {error}") from None


def _run(running: Running, view: View) -> Report:
    """Follow a crawl until it ends; on Ctrl-C stop it and follow it to its end."""
    with closing(running):
        try:
            return _follow(running, view)
        except KeyboardInterrupt:
            try:
                running.stop()
                _follow(running, view)
            except (KeyboardInterrupt, CrawlFailed):
                running.kill()
            raise


def _follow(running: Running, view: View) -> Report:
    """Show the reports of a crawl and return the last; kill the crawl if it hangs. Raises CrawlFailed."""
    before, moved = None, time.monotonic()
    while True:
        try:
            report = running.receive(_SILENCE_SECONDS)
        except TimeoutError:
            running.kill()
            raise CrawlFailed(
                f"no heartbeat from the crawl for {_SILENCE_SECONDS:.0f} s, so it was killed; see {view.page}"
            ) from None
        except EOFError as error:
            raise CrawlFailed(f"{error}, see {view.page}; what it had acknowledged is kept") from error
        view.see(report)
        if report.over:
            return report
        if report.progress() != before:
            before, moved = report.progress(), time.monotonic()
        elif time.monotonic() - moved > (_STALL_WHEN_STOPPING_SECONDS if report.stopped else _STALL_SECONDS):
            running.kill()
            raise CrawlFailed(
                f"no progress for {time.monotonic() - moved:.0f} s, so the crawl was killed; kept: "
                f"{report.counts['memes']} memes; see {view.page}"
            )
