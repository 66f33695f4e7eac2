"""`--failed`, `--retry-failed` and `--drop-failed` of `memeloom crawl` and `fetch`: dead letters."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from memeloom.cli.context import CommandContext, check_blobs
from memeloom.cli.every import seconds_of
from memeloom.cli.terminal import confirmed, count_table, echo_json, echo_row, error_console
from memeloom.report.format import number

if TYPE_CHECKING:  # `memeloom --help` must not wait for them
    from collections.abc import Callable

    from memeloom.configs.runs import Summary
    from memeloom.configs.schema import Config
    from memeloom.scrapers.frontier.dead_letters import DeadCounts, DeadFilter

_CHOICES = ("retry_failed", "failed", "drop_failed")
_SELECTIONS = ("reason", "host", "since", "until")


class When(click.ParamType[float]):
    """A time as seconds since 1970: a date and time in UTC, or how long ago."""

    name = "when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds since 1970."""
        if isinstance(value, float):
            return value
        text = str(value)
        if (ago := seconds_of(text)) is not None:
            return time.time() - ago
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r}: write 12h (ago; s, m, h, d, w), 2026-11-23 or 2026-11-23T14:30 (UTC)", param, ctx)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


_OPTIONS = (
    click.option("--retry-failed", is_flag=True, help="Retry the requests that failed for good; look for nothing new."),
    click.option("--failed", is_flag=True, help="Count and list the requests that failed for good; request nothing."),
    click.option("--drop-failed", is_flag=True, help="Delete requests that failed for good; request nothing."),
    click.option("--reason", metavar="TEXT", help="Of these, the requests whose reason contains TEXT."),
    click.option("--host", metavar="HOST", help="Of these, the requests to HOST and its subdomains."),
    click.option(
        "--since", type=When(), help="Of these, the requests that failed since 2026-11-23, T14:30 (UTC), 12h ago."
    ),
    click.option("--until", type=When(), help="Of these, the requests that failed until then."),
    click.option("--json", "as_json", is_flag=True, help="List as JSON lines."),
    click.option("--yes", is_flag=True, help="Drop without asking."),
)


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about failed requests to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check(options: dict[str, Any]) -> None:
    """Raise UsageError if the options of a command contradict each other."""
    failed = any(options[choice] for choice in _CHOICES)
    if sum(options[choice] for choice in _CHOICES) > 1:
        raise click.UsageError("--failed, --retry-failed and --drop-failed exclude each other")
    if options["fresh"] and failed:
        raise click.UsageError("--fresh goes with none of --failed, --retry-failed and --drop-failed")
    chosen = next((name for name in _SELECTIONS if options[name] is not None), None)
    if chosen and not failed:
        raise click.UsageError(f"--{chosen} goes with --failed, --retry-failed or --drop-failed")
    if options["as_json"] and not options["failed"]:
        raise click.UsageError("--json goes with --failed")
    if options["yes"] and not options["drop_failed"]:
        raise click.UsageError("--yes goes with --drop-failed")


def run(
    context: CommandContext,
    stage: str,
    config: Config,
    crawled: Config,
    work: Callable[..., Summary],
    options: dict[str, Any],
) -> None:
    """List or drop the failed requests of `crawled`, the settings with the sources of the stage, or run the stage."""
    from memeloom.scrapers.frontier.dead_letters import DeadFilter

    which = DeadFilter(**{name: options[name] for name in _SELECTIONS if options[name] is not None})
    if options["failed"]:
        list_failed(crawled, which, as_json=options["as_json"])
    elif options["drop_failed"]:
        drop_failed(crawled, which, yes=options["yes"])
    else:
        check_blobs(config)
        retried = which if options["retry_failed"] else None
        context.run(stage, config, partial(work, retry_failed=retried, fresh=options["fresh"], spawned=True))


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
