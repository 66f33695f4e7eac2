"""The scalars of a training in the form that TensorBoard reads, written without it and on every backend.

An event file is a TFRecord file of `Event` messages (tensorflow/core/util/event.proto and summary.proto):

    Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
    Summary { repeated Value value = 1; }      Value { string tag = 1; float simple_value = 2; }
"""

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file
from memeloom.dataset.tfrecord import frame

FOLDER = "tensorboard"
_NAME = "events.out.tfevents.memeloom"
# The first event of every file.
_VERSION = b"brain.Event:2"
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = b"\x09", b"\x10", b"\x1a", b"\x2a"
_VALUE, _TAG, _SIMPLE_VALUE = b"\x0a", b"\x0a", b"\x15"


class EventWriter:
    """The event file of a training in its output folder."""

    def __init__(self, folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
        """Begin the file anew with the epochs that are over: nothing is missing or doubled after kill -9."""
        self._path = folder / FOLDER / _NAME
        with atomic_file(self._path) as stream:
            stream.write(frame(_WALL_TIME + struct.pack("<d", time.time()) + _FILE_VERSION + _sized(_VERSION)))
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
    """A row of the history; its numbers by their names, those of the training and of validation side by side."""
    values = b""
    for name, value in row.items():
        if isinstance(value, int | float) and name != "step":
            split, _, rest = name.partition("_")
            paired = f"{name}/training" if f"validation_{name}" in row else name
            tag = f"{rest}/validation" if split == "validation" else paired
            content = _TAG + _sized(tag.encode()) + _SIMPLE_VALUE + struct.pack("<f", value)
            values += _VALUE + _sized(content)
    head = _WALL_TIME + struct.pack("<d", time.time()) + _STEP + _varint(int(row["step"]))
    return head + _SUMMARY + _sized(values)


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have their highest bit set."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
