"""The curves of a training as one SVG picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from memeloom.report.format import percent
from memeloom.report.plot import Plot, Series, picture


def plotted(history: Sequence[Mapping[str, Any]], unit: str) -> str:
    """Return loss, accuracy, learning rate and speed over the steps, as the text of an SVG file."""

    def series(name: str, column: str) -> Series:
        return Series(name, [(float(row["step"]), float(row[column])) for row in history])

    def both(column: str) -> list[Series]:
        return [series("training", column), series("validation", f"validation_{column}")]

    return picture([
        Plot(title="Loss", series=both("loss"), y_min=None, x_label="step"),
        Plot(title="Accuracy", series=both("accuracy"), y_min=None, y_format=percent, x_label="step"),
        Plot(title="Learning rate", series=[series("", "learning_rate")], x_label="step"),
        Plot(title=f"{unit.capitalize()} per second", series=[series("", f"{unit}_per_second")], x_label="step"),
    ])  # fmt: skip
