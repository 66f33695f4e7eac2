"""The rows of a bench's one table."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One way to do one part of the work.

    part, who: `recognition`, `ours`. figures: what was measured, by name, as the table shows it.
    goal: in words; met: whether it is; None where there is none.
    """

    part: str
    who: str
    figures: Mapping[str, str]
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As the table shows it."""
        verdict = {None: "", True: ": yes", False: ": NO"}[self.met]
        shown = "\n".join(f"{name} {figure}" for name, figure in self.figures.items())
        return self.part, self.who, shown, self.goal + verdict


def print_parts(title: str, parts: Sequence[str], measure: Callable[[str], Iterable[Row]]) -> None:
    """Measure part by part, each row told when it is known, and print one table."""
    console = Console(width=150)
    table = Table(title=title, box=SIMPLE)
    for column in ("part", "who", "measured", "goal"):
        table.add_column(column)
    for part in parts:
        console.print(f"{part} … (load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors)")
        for row in measure(part):
            table.add_row(*row.cells)
            console.print("  ", row.part, row.who, dict(row.figures))
    console.print(table)
