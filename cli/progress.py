"""Progress a person enjoys on a terminal, and one JSON line a period anywhere else."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from memeloom.cli.hosts import host_fields, host_table
from memeloom.configs.progress import Now, Progress

LINE_SECONDS = 10.0


@contextmanager
def open_progress() -> Iterator[Progress]:
    """Bars if standard error is a terminal, JSON lines if not."""
    if not sys.stderr.isatty():
        yield JsonLines()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}  {task.fields[rate]}  [dim]{task.fields[tallies]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Screen(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Bars(bars)


class Screen(RichProgress):
    """Bars, and below them how things are at the moment."""

    now: Now | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn, several times a second."""
        yield from super().get_renderables()
        if self.now is not None:
            yield host_table(self.now)


class Bars:
    """One bar a stage, with its rate and its tallies."""

    def __init__(self, bars: Screen) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._counts: Counter[str] = Counter()
        self._started = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Add a bar for `stage`; without a total it pulses."""
        self.finish()
        self._counts.clear()
        self._started = time.monotonic()
        self._task = self._bars.add_task(stage, total=total, unit=unit, rate="", tallies="")

    def advance(self, n: int = 1, **counts: int) -> None:
        """Move the bar of the stage by `n`."""
        if self._task is None:
            return
        self._counts.update(counts)
        done = self._bars.tasks[self._task].completed + n
        rate = done / max(time.monotonic() - self._started, 1e-3)
        self._bars.update(self._task, advance=n, rate=f"{rate:,.0f}/s", tallies=_tallies(self._counts))

    def show(self, now: Now) -> None:
        """Draw `now` below the bar."""
        self._bars.now = now

    def finish(self) -> None:
        """Leave the bar where it is."""
        self._bars.now = None
        if self._task is not None:
            self._bars.stop_task(self._task)
            self._task = None


class JsonLines:
    """A line of JSON on standard error when a stage starts, every `LINE_SECONDS`, and when it ends."""

    def __init__(self) -> None:
        self._stage = ""
        self._unit = ""
        self._total: int | None = None
        self._done = 0
        self._counts: Counter[str] = Counter()
        self._now: Now | None = None
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

    def show(self, now: Now) -> None:
        """Let further lines tell `now`, and write one if the last is old: also when nothing advances."""
        self._now = now
        self._write_if_due()

    def finish(self) -> None:
        """Write the last line of the stage."""
        if self._stage:
            self._write()
            self._stage = ""
            self._now = None

    def _write_if_due(self) -> None:
        if time.monotonic() - self._written >= LINE_SECONDS:
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        self._written = now
        seconds = now - self._started
        rate = self._done / seconds if seconds > 0.1 else None
        left = None if self._total is None else max(self._total - self._done, 0)
        line = {
            "stage": self._stage,
            "done": self._done,
            "total": self._total,
            "unit": self._unit,
            "seconds": round(seconds, 1),
            "per_second": None if rate is None else round(rate, 1),
            "remaining_seconds": round(left / rate) if left is not None and rate else None,
            **self._counts,
            **(host_fields(self._now) if self._now is not None else {}),
        }
        sys.stderr.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stderr.flush()


def _tallies(counts: Counter[str]) -> str:
    return "  ".join(f"{name} {count:,}" for name, count in counts.items() if count)
