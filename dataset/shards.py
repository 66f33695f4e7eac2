"""Records into TFRecord files: so many a file, each split its own."""

from pathlib import Path
from types import TracebackType
from typing import Self

from dataset.manifest import Shard
from dataset.schema import SPLITS, Split
from dataset.tfrecord import RecordWriter


class ShardWriter:
    """Writes ``<split>-00000-of-00003.tfrecord[.gz]`` into `folder`.

    Used as a context manager. `finish` gives the files their names, which say how many there are.
    """

    def __init__(self, folder: Path, records: int, *, compressed: bool) -> None:
        self._folder = folder
        self._records = records
        self._suffix = ".tfrecord.gz" if compressed else ".tfrecord"
        self._open: dict[Split, RecordWriter] = {}
        self._closed: dict[Split, list[RecordWriter]] = {split: [] for split in SPLITS}

    def write(self, split: Split, payload: bytes) -> None:
        """Append a record to the current file of `split`."""
        writer = self._open.get(split)
        if writer is None:
            name = f"{split}-{len(self._closed[split]):05}{self._suffix}"
            writer = self._open[split] = RecordWriter(self._folder / name)
        writer.write(payload)
        if writer.records >= self._records:
            self._close(split)

    def finish(self) -> list[Shard]:
        """Make all files durable, name them, and describe them: train, validation, test, each in order."""
        for split in tuple(self._open):
            self._close(split)
        return [
            self._named(split, number, writer)
            for split, writers in self._closed.items()
            for number, writer in enumerate(writers)
        ]

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what an error left open."""
        for writer in self._open.values():
            writer.__exit__(kind, error, trace)

    def _close(self, split: Split) -> None:
        writer = self._open.pop(split)
        writer.close()
        self._closed[split].append(writer)

    def _named(self, split: Split, number: int, writer: RecordWriter) -> Shard:
        name = f"{split}-{number:05}-of-{len(self._closed[split]):05}{self._suffix}"
        writer.path.rename(self._folder / name)
        return Shard(name=name, split=split, records=writer.records, bytes=writer.bytes, sha256=writer.sha256)
