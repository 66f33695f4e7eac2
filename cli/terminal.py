"""What is written to the terminal: text without control characters, JSON, tables and numbers."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # `memeloom --help` must not wait for rich
    from rich.console import Console
    from rich.table import Table

WIDTH = 100
_SIZES = ("B", "kB", "MB", "GB", "TB")
# Not "printable" to Python, and harmless: the joiner inside emoji, and wide spaces.
_HARMLESS = frozenset("\u200d\u00a0\u3000")


def printable(text: str) -> str:
    r"""Return `text` with control and invisible characters written as escapes (``\x1b``).

    Everything that comes from a site, a picture or a file goes through here: escape sequences command a terminal,
    and bidirectional controls reorder its text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _HARMLESS else ascii(c)[1:-1] for c in text)


def echo_row(*cells: str) -> None:
    """Write one line of cells, separated by tabs, for people and for `cut`."""
    click.echo("\t".join(map(printable, cells)))


def echo_json(value: object, indent: int | None = 2) -> None:
    """Write `value` as JSON, in one line if `indent` is None; characters that command a terminal are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    click.echo("".join(c if c.isprintable() or c in "\n\u200d\u00a0\u3000" else json.dumps(c)[1:-1] for c in text))


def console() -> Console:
    """Return standard output, 100 columns wide where it is no terminal."""
    from rich.console import Console

    out = Console()
    return out if out.is_terminal else Console(width=WIDTH)


def facts_table(title: str, facts: Mapping[str, object]) -> Table:
    """A table without a head: a name and a value a row; empty values are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=printable(title), title_justify="left", title_style="bold", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact not in (None, ""):
            table.add_row(name, Text(printable(str(fact))))
    return table


def new_table(title: str, *columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table; the columns in `numbers` are aligned to the right, the others wrap."""
    from rich.table import Table

    table = Table(title=printable(title), title_justify="left", title_style="bold")
    for column in columns:
        if column in numbers:
            table.add_column(column, justify="right")
        else:
            table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: object, style: str | None = None) -> None:
    """Add a row of plain text: no markup, no control characters."""
    from rich.text import Text

    table.add_row(*(Text(printable(str(cell))) for cell in cells), style=style)


def count_table(title: str, head: tuple[str, str], counts: Mapping[str, int], most: int = 15) -> Table:
    """The `most` largest counts, the rest in one row."""
    table = new_table(title, *head, numbers=head[1:])
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ranked[:most]:
        add_row(table, name, number(count))
    if len(ranked) > most:
        add_row(table, f"… {len(ranked) - most:,} more", number(sum(n for _, n in ranked[most:])), style="dim")
    return table


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner and `text` on standard error while the body runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    # TensorFlow's import redirects the file descriptor of standard error: draw on a copy.
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as stream,
        Console(file=stream, force_terminal=True).status(text),
    ):
        yield


def amount(name: str, value: float) -> str:
    """Format `value` as `number` does, bytes of any kind (`name` ends in "bytes") as a size."""
    if name.rpartition(" ")[2] != "bytes":
        return number(value)
    thousands = min(int(math.log(max(value, 1), 1000)), len(_SIZES) - 1)
    return f"{value / 1000**thousands:,.1f} {_SIZES[thousands]}"


def number(value: float) -> str:
    """Format a count with thousands separators, a measure with four significant digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Format as ``0.8 s``, ``43 s`` or ``4 min 05 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
