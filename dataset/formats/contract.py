"""The interface of a file format."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from memeloom.dataset.schema import DatasetRecord

FormatName: TypeAlias = Literal["tfrecord", "parquet", "webdataset", "dummy"]
Compression: TypeAlias = Literal["none", "gzip", "zstd"]


class RecordFile(Protocol):
    """A new file of records. `records`, `bytes` and `sha256` are valid once closed.

    The same records in the same order and under the same file name give the same bytes.
    """

    path: Path
    records: int
    bytes: int
    sha256: str

    def write(self, record: DatasetRecord) -> None:
        """Append a record.

        Raises:
            OSError: the disk is full, or the like.
            ValueError: the record exceeds the format's limit.
        """

    def close(self) -> None:
        """Flush and fsync."""

    def abandon(self) -> None:
        """Close the file after an error, incomplete."""


class Create(Protocol):
    """Creates a file. pictures: True if its records have pictures."""

    def __call__(self, path: Path, compression: Compression, *, pictures: bool) -> RecordFile:
        """Return the new file. Raises FileExistsError."""


Check: TypeAlias = Callable[[DatasetRecord], str]


class Read(Protocol):
    """Reads a file of records."""

    def __call__(self, path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
        """Yield the records in order, in bounded memory.

        check: returns what is wrong with a record ("" if nothing), in addition to the format's own checks.

        Raises:
            DamagedRecords: locates the first record that is unreadable or fails the check.
            MemeloomError: the file cannot be read.
        """


class Format(NamedTuple):
    """A file format.

    suffixes: of file names, by compression.
    has_records: True if files contain records to read and count.
    needs_hash_check: True if altered bytes may crash the reader's process, so the sha256 must be checked first.
    """

    suffixes: Mapping[Compression, str]
    create: Create
    read: Read
    has_records: bool = True
    needs_hash_check: bool = False
