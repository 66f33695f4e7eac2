"""Records into files: so many a file, each split its own."""

from pathlib import Path
from types import TracebackType
from typing import Self, cast

from configs.schema import Dataset
from dataset.formats.contract import RecordFile
from dataset.formats.registry import FORMATS
from dataset.manifest import Shard
from dataset.schema import SPLITS, DatasetRecord, Split


class ShardWriter:
    """Writes ``<split>-00000-of-00003.tfrecord.gz`` and the like into `folder`, in the format that `settings` name.

    Used as a context manager. `finish` gives the files their names, which say how many there are.
    """

    def __init__(self, folder: Path, settings: Dataset) -> None:
        format_ = FORMATS[settings.format]
        self._folder = folder
        self._records = settings.shard_records
        self._compression = settings.compression
        self._pictures = settings.images != "none"
        self._create, self._suffix = format_.create, format_.suffixes[settings.compression]
        self._open: dict[Split, RecordFile] = {}
        self._closed: dict[Split, list[RecordFile]] = {split: [] for split in SPLITS}

    def write(self, record: DatasetRecord) -> None:
        """Append a record to the current file of its split."""
        split = cast("Split", record.split)
        writer = self._open.get(split)
        if writer is None:
            path = self._folder / f"{split}-{len(self._closed[split]):05}{self._suffix}"
            writer = self._open[split] = self._create(path, self._compression, pictures=self._pictures)
        writer.write(record)
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
        """Let go of what an error left open."""
        for writer in self._open.values():
            writer.abandon()

    def _close(self, split: Split) -> None:
        writer = self._open[split]
        writer.close()
        del self._open[split]
        self._closed[split].append(writer)

    def _named(self, split: Split, number: int, writer: RecordFile) -> Shard:
        name = f"{split}-{number:05}-of-{len(self._closed[split]):05}{self._suffix}"
        writer.path.rename(self._folder / name)
        return Shard(name=name, split=split, records=writer.records, bytes=writer.bytes, sha256=writer.sha256)
