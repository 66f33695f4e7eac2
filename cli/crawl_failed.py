"""`memeloom crawl --failed` and `--drop-failed`: dead letters listed, counted and deleted."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from memeloom.cli.terminal import confirmed, count_table, echo_json, echo_row, error_console
from memeloom.report.format import number

if TYPE_CHECKING:  # `memeloom --help` must not wait for them
    from memeloom.configs.schema import Config
    from memeloom.scrapers.frontier.dead_letters import DeadCounts, DeadFilter

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class When(click.ParamType[float]):
    """A time as seconds since 1970: a date and time in UTC, or how long ago."""

    name = "when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds since 1970."""
        if isinstance(value, float):
            return value
        text = str(value)
        if ago := re.fullmatch(r"(\d+)([smhdw])", text):
            return time.time() - int(ago[1]) * _UNITS[ago[2]]
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r}: write 12h (ago; s, m, h, d, w), 2026-11-23 or 2026-11-23T14:30 (UTC)", param, ctx)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def list_failed(config: Config, which: DeadFilter, *, as_json: bool) -> None:
    """Write counts by reason and host to standard error, then one line per request to standard output."""
    from memeloom.scrapers import crawl as stage

    counts = stage.count_failed_requests(config, which)
    _show(counts)
    for source, request in stage.failed_requests(config, which):
        if as_json:
            echo_json(
                {
                    "source": source,
                    "failed_at": _moment(request.at),
                    "reason": request.reason,
                    "host": request.host,
                    "url": request.url,
                    "attempts": request.tries,
                },
                indent=None,
            )
        else:
            echo_row(source, _moment(request.at), request.reason, request.url)


def drop_failed(config: Config, which: DeadFilter, *, yes: bool) -> None:
    """Show counts by reason and host, ask, and delete the requests."""
    from memeloom.scrapers import crawl as stage

    counts = stage.count_failed_requests(config, which)
    _show(counts)
    if not counts.total:
        return
    if not yes and not confirmed(f"Drop {number(counts.total)} failed requests for good?", "nothing was dropped"):
        click.echo("nothing was dropped")
        return
    click.echo(f"dropped {number(stage.drop_failed_requests(config, which))} failed requests")


def _show(counts: DeadCounts) -> None:
    if not counts.total:
        click.echo("no failed request matches", err=True)
        return
    out = error_console()
    for what, names in (("reason", counts.reasons), ("host", counts.hosts)):
        out.print(count_table(f"By {what}", (what, "requests"), names))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
