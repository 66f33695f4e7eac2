"""What a format is: how its files are called, written and read."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from memeloom.dataset.schema import DatasetRecord

FormatName: TypeAlias = Literal["tfrecord", "parquet", "webdataset", "dummy"]
Compression: TypeAlias = Literal["none", "gzip", "zstd"]


class RecordFile(Protocol):
    """One new file of records. `records`, `bytes` and `sha256` describe it when it is closed.

    The same records in the same order, in a file of the same name, are the same bytes.
    """

    path: Path
    records: int
    bytes: int
    sha256: str

    def write(self, record: DatasetRecord) -> None:
        """Append a record.

        Raises:
            OSError: the disk is full, or the like.
            ValueError: the record is larger than the format allows.
        """
        ...

    def close(self) -> None:
        """Write what is buffered and make it durable."""
        ...

    def abandon(self) -> None:
        """Let go of the file after an error; nothing is promised of it."""
        ...


class Create(Protocol):
    """Begins a new file. pictures: whether its records hold any."""

    def __call__(self, path: Path, compression: Compression, *, pictures: bool) -> RecordFile:
        """Raises FileExistsError."""
        ...


Check: TypeAlias = Callable[[DatasetRecord], str]


class Read(Protocol):
    """Reads a file of records."""

    def __call__(self, path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
        """The records in order, a bounded number of them in memory.

        check: what is wrong with a record ("" if nothing), beside what the format itself has to check by.

        Raises:
            DamagedRecords: names the first record that cannot be read or does not pass, and its place.
            MemeloomError: the file cannot be read.
        """
        ...


class Format(NamedTuple):
    """A kind of files.

    suffixes: how their names end, by the compressions that there are.
    counted: whether files hold their records, so that they can be read and counted.
    trusting: whether the reader may break, and the process with it, on bytes that are not what was written: then the
        sha256 comes first.
    """

    suffixes: Mapping[Compression, str]
    create: Create
    read: Read
    counted: bool = True
    trusting: bool = False
