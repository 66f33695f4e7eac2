"""What is told about a training after each epoch: a line of JSON, a row of CSV, a plot, and TensorBoard's scalars."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memeloom.configs.outputs import write_text
from memeloom.train.fitting.plot import plotted

LINES, TABLE, PLOT = "history.jsonl", "history.csv", "history.svg"


def write_history(folder: Path, history: Sequence[Mapping[str, Any]], unit: str) -> None:
    """Write `history`, one row an epoch, into `folder` in three forms. Files that say it already are left alone.

    unit: what progress is counted in; rows have `<unit>_per_second`.
    """
    if not history:
        return
    texts = {
        LINES: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in history),
        TABLE: _table(history),
        PLOT: plotted(history, unit),
    }
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)


def _table(history: Sequence[Mapping[str, Any]]) -> str:
    """The rows without their samples, which are lists."""
    table = io.StringIO()
    columns = [name for name, value in history[-1].items() if not isinstance(value, list)]
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return table.getvalue()
