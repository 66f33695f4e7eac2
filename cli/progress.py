"""The progress of a stage: bars and figures on a terminal, one JSON line every ten seconds elsewhere."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from memeloom.cli.terminal import amount
from memeloom.configs.logs import json_line
from memeloom.configs.progress import HostSnapshot, Progress, Snapshot
from memeloom.report.format import escape_controls, number

LINE_SECONDS = 10.0
HOST_ROWS = 8
_STYLES = {"ok": "green", "trying": "yellow", "resting": "yellow", "given up": "red"}


@contextmanager
def open_progress(log_format: str = "text") -> Iterator[Progress]:
    """Open bars if standard error is a terminal and the log is text, JSON lines if not."""
    if log_format == "json" or not sys.stderr.isatty():
        yield JsonLines()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=28),
        _Done(),
        TextColumn("{task.fields[unit]}  {task.fields[rate]}  [dim]{task.fields[tallies]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    # TensorFlow's import redirects the file descriptor of standard error: draw on a copy.
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as stream,
        Screen(*columns, console=Console(file=stream, force_terminal=True), transient=True) as screen,
    ):
        yield Bars(screen)


class _Done(MofNCompleteColumn):
    """Units done; empty for a stage that counts none."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.fields["unit"] else Text()


class Screen(RichProgress):
    """Bars; below them the measurements, and the state of a crawl."""

    now: Snapshot | None = None
    measurements: Mapping[str, float] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is drawn, several times a second."""
        yield from super().get_renderables()
        if self.measurements:
            figures = (f"{_words(name)} {value:.4g}" for name, value in self.measurements.items())
            yield Text(f"  {'   '.join(figures)}", no_wrap=True, overflow="ellipsis")
        if self.now is not None:
            yield host_table(self.now)


class Bars(Progress):
    """One bar for each stage, with its rate and its tallies."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._task: TaskID | None = None
        self._counts: Counter[str] = Counter()
        self._started = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Add a bar for `stage`; without a total it pulses."""
        self.finish()
        self._counts.clear()
        self._started = time.monotonic()
        self._task = self._screen.add_task(stage, total=total, unit=unit, rate="", tallies="")

    def advance(self, n: int = 1, **counts: int) -> None:
        """Move the bar of the stage by `n`."""
        if self._task is None:
            return
        self._counts.update(counts)
        done = self._screen.tasks[self._task].completed + n
        rate = done / max(time.monotonic() - self._started, 1e-3)
        tallies = "  ".join(f"{_words(name)} {count:,}" for name, count in self._counts.items() if count)
        self._screen.update(self._task, advance=n, rate=f"{rate:,.0f}/s", tallies=tallies)

    def measure(self, **values: float) -> None:
        """Draw `values` below the bars, beside those with other names."""
        self._screen.measurements = {**(self._screen.measurements or {}), **values}

    def show(self, now: Snapshot) -> None:
        """Draw `now` below the bars."""
        self._screen.now = now

    def finish(self) -> None:
        """Stop the bar; measurements and hosts disappear."""
        self._screen.now = self._screen.measurements = None
        if self._task is not None:
            self._screen.stop_task(self._task)
            self._task = None


class JsonLines(Progress):
    """A line of JSON on standard error when a stage starts, every `LINE_SECONDS`, and when it ends."""

    def __init__(self) -> None:
        self._stage = ""
        self._unit = ""
        self._total: int | None = None
        self._done = 0
        self._counts: Counter[str] = Counter()
        self._measurements: dict[str, float] = {}
        self._now: Snapshot | None = None
        self._started = self._written = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Write the first line of `stage`."""
        self.finish()
        self._stage, self._unit, self._total, self._done = stage, unit, total, 0
        self._counts.clear()
        self._started = time.monotonic()
        self._write()

    def advance(self, n: int = 1, **counts: int) -> None:
        """Count, and write a line if the last one is old."""
        self._done += n
        self._counts.update(counts)
        self._write_if_due()

    def measure(self, **values: float) -> None:
        """Add `values` to further lines."""
        self._measurements.update(values)

    def show(self, now: Snapshot) -> None:
        """Add `now` to further lines; write one if the last is old, as nothing may advance."""
        self._now = now
        self._write_if_due()

    def finish(self) -> None:
        """Write the last line of the stage."""
        if self._stage:
            self._write()
            self._stage = ""
            self._now = None
            self._measurements.clear()

    def _write_if_due(self) -> None:
        if time.monotonic() - self._written >= LINE_SECONDS:
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        self._written = now
        seconds = now - self._started
        rate = self._done / seconds if seconds > 0.1 else None
        left = None if self._total is None else max(self._total - self._done, 0)
        fields = {
            "done": self._done,
            "total": self._total,
            "unit": self._unit,
            "seconds": round(seconds, 1),
            "per_second": None if rate is None else round(rate, 1),
            "remaining_seconds": round(left / rate) if left is not None and rate else None,
            **self._counts,
            **{name: round(value, 5) for name, value in self._measurements.items()},
            **(_host_fields(self._now) if self._now is not None else {}),
        }
        sys.stderr.write(json_line(self._stage, "progress", **fields) + "\n")
        sys.stderr.flush()


def host_table(now: Snapshot) -> RenderableType:
    """Draw rates in one line, the queue in another, and up to `HOST_ROWS` hosts, failing ones first."""
    per_second = (
        amount(name, round(rate, 1)) + ("" if name == "bytes" else f" {name}") for name, rate in now.rates.items()
    )
    lines = [Text("  " + "   ".join(f"{each}/s" for each in per_second), no_wrap=True, overflow="ellipsis")]
    if now.queue:
        queue = " · ".join(f"{source} {number(n)}" for source, n in now.queue.items())
        lines.append(Text(f"  queue  {queue}", no_wrap=True, overflow="ellipsis"))
    if not now.hosts:
        return Group(*lines)
    table = Table.grid(padding=(0, 2))
    table.add_column(max_width=36)  # shrinks on a narrow terminal
    table.add_column(no_wrap=True, min_width=9)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True)
    shown = now.hosts[:HOST_ROWS]
    for host in shown:
        table.add_row(*_host_row(host))
    others = {state: n - sum(host.state == state for host in shown) for state, n in now.states.items()}
    rest = ", ".join(f"{number(n)} {state}" for state, n in others.items() if n > 0)
    return Group(*lines, table, *([Text(f"  and {rest}", style="dim")] if rest else []))


def _host_row(host: HostSnapshot) -> tuple[Text, ...]:
    state = f"{host.state} {host.rests_seconds:.0f} s" if host.rests_seconds else host.state
    latency = "–" if host.latency_seconds is None else f"{host.latency_seconds * 1000:,.0f} ms"
    failures = f"{number(host.failures)} failed" if host.failures else ""
    return (
        Text(f"  {escape_controls(host.name)}", no_wrap=True, overflow="ellipsis"),
        Text(state, style=_STYLES.get(host.state, "")),
        Text(latency),
        Text(f"{number(host.answers)} answers"),
        Text(failures, style="yellow"),
    )


def _host_fields(now: Snapshot) -> dict[str, Any]:
    return {
        "rates": dict(now.rates),
        "queue": dict(now.queue),
        "host_states": dict(now.states),
        "hosts": {
            host.name: {"state": host.state}
            | ({} if host.latency_seconds is None else {"latency_ms": round(host.latency_seconds * 1000, 1)})
            | ({"rests_seconds": host.rests_seconds} if host.rests_seconds else {})
            for host in now.hosts[:HOST_ROWS]
        },
    }


def _words(name: str) -> str:
    return name.replace("_", " ")
