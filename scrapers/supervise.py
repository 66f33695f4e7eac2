"""Runs the spiders of a crawl in a thread or a process, follows their reports, and sums up."""

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.scrapers.errors import CrawlFailed
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


def run_spiders(config: Config, progress: Progress, *, stage: str, spawned: bool) -> Summary:
    """Run the spiders named by ``crawl.sources`` to their end; Ctrl-C ends them cleanly.

    `stage` names the files of the run. The other arguments, the result and the errors are those of `crawl`.
    """
    began = time.monotonic()
    stem = Path(config.runs) / f"{stage}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    log = stem.with_name(f"{stem.name}.log")
    with View(stem, config.crawl, progress, stage) as view:
        last = _run((SpawnedCrawl if spawned else ThreadCrawl)(config, log), view)
        summary = Summary(
            stage=stage,
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
