"""The history of a training: JSON lines, CSV, a plot, and TensorBoard scalars.

TensorBoard's event file is a TFRecord file of `Event` messages, written without TensorFlow (Keras's callback needs it
on every backend):

    Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
    Summary { repeated Value value = 1; }      Value { string tag = 1; float simple_value = 2; }
"""

import csv
import io
import json
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file, write_text
from memeloom.dataset.examples import varint
from memeloom.dataset.formats.tfrecord import frame
from memeloom.report.format import short_percent
from memeloom.report.plot import Plot, Series, picture

LINES, TABLE, PLOT = "history.jsonl", "history.csv", "history.svg"
EVENTS = "tensorboard"
_EVENTS_FILE = "events.out.tfevents.memeloom"
_EVENTS_VERSION = b"brain.Event:2"
# Tags of protobuf fields: number and wire type.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = b"\x09", b"\x10", b"\x1a", b"\x2a"
_VALUE, _TAG, _SIMPLE_VALUE = b"\x0a", b"\x0a", b"\x15"


def write_history(folder: Path, history: Sequence[Mapping[str, Any]], unit: str) -> None:
    """Write `history`, one row per epoch, into `folder` in three formats; unchanged files are not rewritten.

    unit: unit of progress; rows have `<unit>_per_second`.
    """
    if not history:
        return
    texts = {
        LINES: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in history),
        TABLE: _table(history),
        PLOT: _plot(history, unit),
    }
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)


def _table(history: Sequence[Mapping[str, Any]]) -> str:
    table = io.StringIO()
    columns = [name for name, value in history[-1].items() if not isinstance(value, list)]
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return table.getvalue()


def _plot(history: Sequence[Mapping[str, Any]], unit: str) -> str:
    def series(name: str, column: str) -> Series:
        return Series(name, [(float(row["step"]), float(row[column])) for row in history])

    def both(column: str) -> list[Series]:
        return [series("training", column), series("validation", f"validation_{column}")]

    return picture([
        Plot(title="Loss", series=both("loss"), y_min=None, x_label="step"),
        Plot(title="Accuracy", series=both("accuracy"), y_min=None, y_format=short_percent, x_label="step"),
        Plot(title="Learning rate", series=[series("", "learning_rate")], x_label="step"),
        Plot(title=f"{unit.capitalize()} per second", series=[series("", f"{unit}_per_second")], x_label="step"),
    ])  # fmt: skip


class EventWriter:
    """Writes a training's TensorBoard event file into its output folder."""

    def __init__(self, folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
        """Rewrite the file from `history`, so that a kill leaves no missing or duplicate epochs."""
        self._path = folder / EVENTS / _EVENTS_FILE
        with atomic_file(self._path) as stream:
            stream.write(frame(_now() + _FILE_VERSION + _sized(_EVENTS_VERSION)))
            for row in history:
                stream.write(frame(_event(row)))

    def add(self, row: Mapping[str, Any]) -> None:
        """Append an epoch; TensorBoard follows a file that grows, not one that is replaced."""
        try:
            with self._path.open("ab") as stream:
                stream.write(frame(_event(row)))
        except OSError as error:
            raise MemeloomError(f"cannot write {self._path}: {error.strerror or error}") from error


def _event(row: Mapping[str, Any]) -> bytes:
    values = b""
    for name, value in row.items():
        if isinstance(value, int | float) and name != "step":
            split, _, rest = name.partition("_")
            paired = f"{name}/training" if f"validation_{name}" in row else name
            tag = f"{rest}/validation" if split == "validation" else paired
            content = _TAG + _sized(tag.encode()) + _SIMPLE_VALUE + struct.pack("<f", value)
            values += _VALUE + _sized(content)
    return _now() + _STEP + varint(int(row["step"])) + _SUMMARY + _sized(values)


def _now() -> bytes:
    return _WALL_TIME + struct.pack("<d", time.time())


def _sized(content: bytes) -> bytes:
    return varint(len(content)) + content
