"""The table that ends a run, and the one of `memeloom stats`."""

import math
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memeloom.configs.runs import Summary

WIDTH = 100
_RATED = {"bytes", "captions", "examples", "images", "memes", "pages", "steps"}
_SIZES = ("B", "kB", "MB", "GB", "TB")
# What can be done about a count.
_HINTS = {
    "requests left": "`memeloom crawl` goes on with the requests that are left.",
    "requests set aside": "`memeloom crawl --failed` lists what was set aside, `--retry-failed` tries it again.",
    "failed": "`memeloom {command} --failed` lists the memes whose picture failed, `--retry-failed` tries them again.",
    "templates found": "`memeloom templates list --state found` lists them; name, merge or reject them.",
}
# Where a stage is one of several things that a command does.
_COMMANDS = {"templates": "templates run"}


def console() -> Console:
    """Standard output, wide enough for our tables also when it is a pipe."""
    out = Console()
    return out if out.is_terminal else Console(width=WIDTH)


def show_summary(summary: Summary, record: Path) -> None:
    """Print what a stage did: counts with their rates, what was dropped by reason, what it left.

    Zeros are left out here; `run.json` holds them.
    """
    total = summary.seconds.get("total", 0.0)
    table = Table(title=f"{summary.stage}: done in {duration(total)}", title_style="bold", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("per second", justify="right")
    for name, count in summary.counts.items():
        if count:
            rate = amount(name, round(count / total, 1)) if total and name in _RATED else ""
            table.add_row(name, amount(name, count), rate)
    if summary.reasons:
        table.add_section()
        for reason, count in sorted(summary.reasons.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(Text(f"  {reason}"), number(count), "", style="yellow")
    out = console()
    # An empty table makes one wonder.
    out.print(table if table.row_count else Text(f"{summary.stage}: there was nothing to do", style="bold"))
    for name, hint in _HINTS.items():
        if summary.counts.get(name):
            out.print(Text(hint.format(command=_COMMANDS.get(summary.stage, summary.stage))), soft_wrap=True)
    for name, place in {**summary.outputs, "run record": str(record)}.items():
        out.print(Text.assemble((f"{name}: ", "dim"), place), soft_wrap=True)


def counted(title: str, head: tuple[str, str], counts: Mapping[str, int], most: int = 15) -> Table:
    """A two-column table of the `most` largest counts; the rest in one row."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(head[0])
    table.add_column(head[1], justify="right")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ranked[:most]:
        table.add_row(Text(name), number(count))
    if len(ranked) > most:
        table.add_row(f"… {len(ranked) - most:,} more", number(sum(count for _, count in ranked[most:])), style="dim")
    return table


def amount(name: str, value: float) -> str:
    """`value` as `number` shows it, bytes of any kind as a size."""
    if name.rpartition(" ")[2] != "bytes":
        return number(value)
    thousands = min(int(math.log(max(value, 1), 1000)), len(_SIZES) - 1)
    return f"{value / 1000**thousands:,.1f} {_SIZES[thousands]}"


def number(value: float) -> str:
    """A count with thousands separators, a measure with four significant digits or as many as it takes."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """``0.8 s``, ``43 s`` or ``4 min 05 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
