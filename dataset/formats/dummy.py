"""Records that are counted and forgotten: shows how fast a build is without writing."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from memeloom.dataset.formats.contract import Check, Compression
from memeloom.dataset.schema import DatasetRecord


class DummyFile:
    """An empty file that says how many records it did not take."""

    sha256 = hashlib.sha256().hexdigest()
    bytes = 0

    def __init__(self, path: Path, compression: Compression, *, pictures: bool) -> None:  # noqa: ARG002
        self.path = path
        self.records = 0
        path.touch(exist_ok=False)

    def write(self, record: DatasetRecord) -> None:  # noqa: ARG002
        """Count a record."""
        self.records += 1

    def close(self) -> None:
        """There is nothing to write."""

    def abandon(self) -> None:
        """There is nothing to let go of."""


def read_dummy(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:  # noqa: ARG001
    """No records."""
    return iter(())
