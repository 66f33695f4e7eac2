"""The rows of a bench's one table."""

from collections.abc import Mapping
from dataclasses import dataclass


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
