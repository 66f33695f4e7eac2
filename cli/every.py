"""`--every` of the stages that look for new work: run again and again, also after a failed run."""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
import traceback
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from memeloom.cli.context import CommandContext
from memeloom.configs.errors import ConfigError
from memeloom.report.format import escape_controls

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
# Options with which a command does something else than its work.
_OTHERS = ("inspect", "fresh", "again")


def seconds_of(text: str) -> int | None:
    """Return the seconds of a duration such as ``30m`` (s, m, h, d, w); None if it is not one."""
    found = re.fullmatch(r"(\d+)([smhdw])", text)
    return int(found[1]) * _UNITS[found[2]] if found else None


class _Duration(click.ParamType[int]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        seconds = value if isinstance(value, int) else seconds_of(str(value))
        if not seconds:
            self.fail(f"{str(value)!r}: write 30m or 6h (s, m, h, d, w)", param, ctx)
        return seconds


def repeatable(command: Callable[..., None]) -> Callable[..., None]:
    """Give the function of a command, which takes its context first, the option ``--every``."""

    @click.option(
        "--every", type=_Duration(), help="Run again this long (6h) after each run, also a failed one, until Ctrl-C."
    )
    @functools.wraps(command)
    def repeated(context: CommandContext, /, *arguments: Any, every: int | None = None, **options: Any) -> None:
        if every is None:
            command(context, *arguments, **options)
            return
        if other := next((name for name in _OTHERS if options.get(name)), None):
            raise click.UsageError(f"--every does not go with --{other.replace('_', '-')}")
        # Of a service manager: ends a run as Ctrl-C does.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            while True:
                failure = _failure(context, functools.partial(command, context, *arguments, **options))
                _tell(context, failure, datetime.now(UTC) + timedelta(seconds=every))
                sleep(every)
        finally:
            signal.signal(signal.SIGTERM, before)

    return repeated


def _failure(context: CommandContext, work: Callable[[], None]) -> str | None:
    """Do one run. Returns why it failed; raises what no later run would mend."""
    try:
        work()
    except (ConfigError, click.ClickException):
        raise
    except Exception as error:  # noqa: BLE001 -- the next run may succeed
        if context.debug:
            click.echo(context.redact(traceback.format_exc()), err=True, nl=False)
        return context.redact(" ".join((str(error) or type(error).__name__).split("\n")))
    return None


def _tell(context: CommandContext, failure: str | None, at: datetime) -> None:
    """Say when the next run begins: a line on a terminal, JSON elsewhere, as progress is."""
    stamp = at.isoformat(timespec="seconds")
    level = "error" if failure else "info"
    if context.log("run failed" if failure else "waiting", level=level, failed=failure, next_run=stamp):
        return
    if not sys.stderr.isatty():
        line = json.dumps({"failed": failure, "next_run": stamp}, ensure_ascii=False)
        click.echo(escape_controls(line), err=True)
        return
    if failure:
        click.secho(f"memeloom: {escape_controls(failure)}", fg="red", err=True)
    click.echo(f"next run: {stamp}", err=True)
