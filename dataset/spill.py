"""Captions sorted by their order on disk, so that memory is bounded by one partition and not by the data."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dataset.schema import Split

# Rows that wait in memory before they are appended to their files, and rows that one partition should hold.
_WAITING_ROWS = 20_000
_PARTITION_ROWS = 20_000
_MOST_PARTITIONS = 4096


class Row(NamedTuple):
    """A caption that went through all steps. Sorted by `order` and then by `id`."""

    order: str
    id: str
    split: Split
    source: str
    template: str
    template_name: str
    template_slug: str
    boxes: tuple[str, ...]
    image_key: str

    def line(self) -> str:
        """The row as one line of ASCII, which begins with ``["<order>``."""
        return json.dumps(self)


class Spill:
    """Takes rows in any order and gives them back sorted.

    folder: an empty folder for the partitions. expected: about how many rows will come.
    A partition holds one range of `order`, which is a hash: partitions are about equally full.
    """

    def __init__(self, folder: Path, expected: int) -> None:
        self._folder = folder
        self._partitions = min(max(expected // _PARTITION_ROWS, 1), _MOST_PARTITIONS)
        self._lines: dict[int, list[str]] = {}
        self._waiting = 0

    def add(self, line: str) -> None:
        """Keep the row that is written in `line`."""
        partition = int(line[2:10], 16) * self._partitions >> 32
        self._lines.setdefault(partition, []).append(line)
        self._waiting += 1
        if self._waiting >= _WAITING_ROWS:
            self._flush()

    def sorted_rows(self) -> Iterator[Row]:
        """All rows in order of `order` and `id`; one partition in memory. May be asked more than once."""
        self._flush()
        for partition in range(self._partitions):
            path = self._path(partition)
            if path.exists():
                with path.open(encoding="ascii") as lines:
                    yield from sorted(_row(json.loads(line)) for line in lines)

    def _flush(self) -> None:
        for partition, lines in self._lines.items():
            with self._path(partition).open("a", encoding="ascii") as stream:
                stream.write("\n".join(lines) + "\n")
        self._lines.clear()
        self._waiting = 0

    def _path(self, partition: int) -> Path:
        return self._folder / f"{partition:05}.jsonl"


def _row(values: list[Any]) -> Row:
    row = Row(*values)
    return row._replace(boxes=tuple(row.boxes))
