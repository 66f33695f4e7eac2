"""Dropped captions on their way through a build: each a finished line of JSON, and a hash that orders them.

They are kept only with `dataset.keep_dropped`. Packed, they are sorted by that hash: a number of entries, the entries,
and the lines.
"""

import os
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import orjson

from memeloom.dataset.dropped import TEMPLATE, DroppedRecord
from memeloom.dataset.flow.work import name_hash
from memeloom.dataset.steps.batch import apply_to_batch
from memeloom.dataset.steps.caption import Caption, Step
from memeloom.engine.steps import Drop

# Order and line of a dropped caption.
Line: TypeAlias = tuple[int, bytes]
_ENTRY: Final = np.dtype([("order", "<u8"), ("start", "<u4"), ("length", "<u4")])
_COUNT_BYTES: Final = 8


def dropped_line(caption: Caption, drop: Drop, step: str, separator: str, like: Caption | None = None) -> bytes:
    """Return the line of a caption as `step` saw it. like: the caption that it duplicates."""
    record = DroppedRecord(
        id=caption.id,
        source=caption.source,
        template=caption.template,
        template_name=caption.template_name,
        reason=drop.reason,
        detail=drop.detail,
        step=step,
        text="".join([box + separator for box in caption.boxes]),
        boxes=caption.boxes,
        like=like.id if like else "",
        like_boxes=like.boxes if like else (),
    )
    return orjson.dumps(record._asdict())


class DropLog:
    """Collects the dropped captions of a part of a build; collects nothing unless `wanted`."""

    def __init__(self, separator: str, *, wanted: bool) -> None:
        self.wanted = wanted
        self._separator = separator
        self._lines: list[Line] = []

    def add(self, caption: Caption, drop: Drop, step: str) -> None:
        """Add a caption that `step` dropped."""
        if self.wanted:
            self._lines.append((name_hash(caption.id), dropped_line(caption, drop, step, self._separator)))

    def extend(self, lines: Iterable[Line]) -> None:
        """Add finished lines."""
        self._lines.extend(lines)

    def packed(self) -> bytes:
        """Return all lines, packed; nothing if there are none."""
        if not self._lines:
            return b""
        self._lines.sort()
        lengths = np.array([len(line) for _, line in self._lines], np.int64)
        entries = np.empty(len(lengths), _ENTRY)
        entries["order"] = [order for order, _ in self._lines]
        entries["length"], entries["start"] = lengths, np.cumsum(lengths) - lengths
        count = len(entries).to_bytes(_COUNT_BYTES, "little")
        return b"".join((count, entries.tobytes(), *(line for _, line in self._lines)))


def unpack_lines(stream: BinaryIO, offset: int, first: int, last: int) -> list[Line]:
    """Return the lines at `offset` of a file whose orders are from `first` to `last`, both included."""
    file = stream.fileno()
    count = int.from_bytes(os.pread(file, _COUNT_BYTES, offset), "little")
    offset += _COUNT_BYTES
    entries = np.frombuffer(os.pread(file, count * _ENTRY.itemsize, offset), _ENTRY)
    begin = int(np.searchsorted(entries["order"], np.uint64(first), "left"))
    end = int(np.searchsorted(entries["order"], np.uint64(last), "right"))
    entries = entries[begin:end]
    if not len(entries):
        return []
    start = int(entries["start"][0])
    data = os.pread(file, int(entries["length"].sum()), offset + count * _ENTRY.itemsize + start)
    places = zip(
        entries["order"].tolist(), (entries["start"] - start).tolist(), entries["length"].tolist(), strict=True
    )
    return [(order, data[at : at + length]) for order, at, length in places]


def apply_and_log(steps: Sequence[tuple[str, Step]], captions: Sequence[Caption], log: DropLog) -> list[Caption | Drop]:
    """Return what `apply_to_batch` returns; log each drop with its step and the caption as that step saw it."""
    if not log.wanted:
        return apply_to_batch([step for _, step in steps], captions)
    results: list[Caption | Drop] = list(captions)
    kept, indices = list(captions), list(range(len(captions)))
    for name, step in steps:
        left: list[Caption] = []
        left_indices: list[int] = []
        for index, before, outcome in zip(indices, kept, apply_to_batch([step], kept), strict=True):
            results[index] = outcome
            if isinstance(outcome, Drop):
                log.add(before, outcome, name)
            else:
                left.append(outcome)
                left_indices.append(index)
        kept, indices = left, left_indices
    return results


def step_before(drop: Drop) -> str:
    """Return the step of a drop that happens before the steps of the settings."""
    return TEMPLATE if drop.reason == "no template" else "picture"
