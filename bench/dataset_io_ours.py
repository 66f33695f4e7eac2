"""Our readers and writers for `bench.dataset_io_worker`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.formats.tfrecord import RecordWriter, read_records
from memeloom.dataset.schema import DatasetRecord, encode_record

Way = tuple[Callable[[Path], None], Callable[[Path], Any]]


def frames(compression: str, rows: Sequence[Mapping[str, Any]]) -> Way:
    """Bytes in, bytes out."""
    payloads = [encode_record(record) for record in _records(rows)]
    name = "a" + FORMATS["tfrecord"].suffixes[compression]  # type: ignore[index]  # a name of ours

    def write(folder: Path) -> None:
        with RecordWriter(folder / name) as writer:
            for payload in payloads:
                writer.append(payload)

    return write, lambda folder: read_records(folder / name)


def records(format_: str, compression: str, rows: Sequence[Mapping[str, Any]]) -> Way:
    """Records in, records out."""
    made = list(_records(rows))
    chosen = FORMATS[format_]  # type: ignore[index]  # a name of ours
    name = "a" + chosen.suffixes[compression]  # type: ignore[index]

    def write(folder: Path) -> None:
        file = chosen.create(folder / name, compression, pictures=made[0].image is not None)  # type: ignore[arg-type]
        for record in made:
            file.write(record)
        file.close()

    return write, lambda folder: chosen.read(folder / name)


def _records(rows: Sequence[Mapping[str, Any]]) -> Iterator[DatasetRecord]:
    for row in rows:
        yield DatasetRecord(**{"image": None, **row, "boxes": tuple(row["boxes"])})
