"""Rows of a bench's table."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One way to do one part of the work.

    part, who: such as `recognition`, `ours`. figures: measurements by name, as shown.
    goal: text; met: whether it is reached, None without a goal.
    """

    part: str
    who: str
    figures: Mapping[str, str]
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Return the cells of the table."""
        verdict = {None: "", True: ": yes", False: ": NO"}[self.met]
        shown = "\n".join(f"{name} {figure}" for name, figure in self.figures.items())
        return self.part, self.who, shown, self.goal + verdict


def print_parts(title: str, parts: Sequence[str], measure: Callable[[str], Iterable[Row]]) -> list[Row]:
    """Measure each part, print each row as it is known, then one table; return the rows."""
    console = Console(width=150)
    table, rows = Table(title=title, box=SIMPLE), []
    for column in ("part", "who", "measured", "goal"):
        table.add_column(column)
    for part in parts:
        console.print(f"{part} … (load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors)")
        for row in measure(part):
            table.add_row(*row.cells)
            rows.append(row)
            figures = "; ".join(f"{name} {figure}" for name, figure in row.figures.items())
            console.print(f"   {row.part}, {row.who}: {figures}", markup=False, highlight=False)
    console.print(table)
    return rows
