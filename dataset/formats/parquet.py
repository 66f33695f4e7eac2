"""Parquet files, for data frames, DuckDB, Spark and the package `datasets`. Needs the extra ``parquet``.

One column per feature: text as strings, `boxes` as a list of strings, integers as nullable int64, `posted_at` as a
nullable timestamp, `image` as a struct of bytes and path, described by metadata so that `datasets` and hubs show it.
Pages have a CRC-32. A row group holds 4,096 records or 8 MiB of pictures, which
bounds memory. Output is deterministic for one version of pyarrow.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.contract import Check, Compression
from memeloom.dataset.formats.packed import DamagedRecords, HashedFile
from memeloom.dataset.formats.webdataset import picture_suffix
from memeloom.dataset.schema import FEATURES, INTEGERS, DatasetRecord, Picture

_GROUP_RECORDS = 4096
_GROUP_BYTES = 8 * 2**20
_BATCH_RECORDS = 512
# Decoded size of a batch, and the largest size of a record, as far as the metadata of a row group tell.
_BATCH_BYTES = 64 * 2**20
_MILLISECONDS = 1000
# Columns with repeated values, worth a dictionary and statistics.
_REPEATING = ["template", "template_name", "source", "split"]
_LISTS = ("boxes.list.element",)
_NULLABLE = (*INTEGERS, "image")
Item = TypeVar("Item")


class _Table(HashedFile):
    """Writes rows of `columns` in row groups that bound memory."""

    def __init__(self, path: Path, compression: Compression, columns: Sequence[str]) -> None:
        from pyarrow.parquet import ParquetWriter

        super().__init__(path)
        self._columns = columns
        self._schema = _schema(columns)
        self._writer: Any = ParquetWriter(
            _Stream(self),
            self._schema,
            compression=compression,
            write_page_checksum=True,
            use_dictionary=_REPEATING,
            write_statistics=_REPEATING,
        )
        self._rows = self._bytes = 0

    def close(self) -> None:
        """Flush and fsync."""
        if self._rows:
            self._write_group()
        self._writer.close()
        super().close()

    def _count(self, image: bytes | None) -> None:
        self.records += 1
        self._rows += 1
        self._bytes += len(image or b"")
        if self._rows >= _GROUP_RECORDS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        values = self._take()
        arrays = [pa.array(values[name], self._schema.field(name).type) for name in self._columns]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = self._bytes = 0

    def _take(self) -> Mapping[str, Sequence[Any]]:
        """Return the values of the waiting rows by column, and forget them."""
        raise NotImplementedError


class ParquetFile(_Table):
    """Writes records to a Parquet file. first: text columns of a subclass before those of the features."""

    def __init__(self, path: Path, compression: Compression, *, pictures: bool, first: Sequence[str] = ()) -> None:
        columns = [name for name, *_ in FEATURES if pictures or name != "image"]
        super().__init__(path, compression, [*first, *columns])
        self._group: list[DatasetRecord] = []

    def write(self, record: DatasetRecord) -> None:
        """Append a record."""
        self._group.append(record)
        self._count(record.image)

    def _take(self) -> Mapping[str, Sequence[Any]]:
        columns = zip(*self._group, strict=True)
        by_name: dict[str, Sequence[Any]] = dict(zip(DatasetRecord._fields, columns, strict=True))
        by_name["posted_at"] = [None if time is None else time * _MILLISECONDS for time in by_name["posted_at"]]
        if "image" in self._columns:
            by_name["image"] = list(map(_as_struct, by_name["image_key"], by_name["image"]))
        self._group.clear()
        return by_name


class ParquetPictures(_Table):
    """Writes pictures to a Parquet file of `image_key` and `image`."""

    def __init__(self, path: Path, compression: Compression) -> None:
        super().__init__(path, compression, _OF_PICTURES)
        self._group: list[Picture] = []

    def write(self, picture: Picture) -> None:
        """Append a picture."""
        self._group.append(picture)
        self._count(picture.data)

    def _take(self) -> Mapping[str, Sequence[Any]]:
        keys = [picture.key for picture in self._group]
        images = [_as_struct(*picture) for picture in self._group]
        self._group.clear()
        return {"image_key": keys, "image": images}


def _as_struct(key: str, data: bytes | None) -> dict[str, Any] | None:
    """Return a picture as the package `datasets` stores one; hubs show its path as a file name."""
    return None if data is None else {"bytes": data, "path": key + picture_suffix(data)}


class _Stream:
    closed = False

    def __init__(self, file: HashedFile) -> None:
        self._file = file
        self._at = 0

    def write(self, data: Any) -> int:
        """Append a buffer of pyarrow."""
        buffer = memoryview(data)
        self._file.put(buffer)
        self._at += len(buffer)
        return len(buffer)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._at

    def flush(self) -> None:
        """Do nothing: `close` of the file flushes."""

    def close(self) -> None:
        """Do nothing: the owner closes the file."""


def _schema(columns: Sequence[str]) -> Any:
    import pyarrow as pa

    types = dict.fromkeys(INTEGERS, pa.int64()) | {
        "boxes": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        "posted_at": pa.timestamp("ms", tz="UTC"),  # Parquet has no seconds
    }
    fields = [pa.field(name, types.get(name, pa.string()), nullable=name in _NULLABLE) for name in columns]
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": _hub_features(columns)}})})


def _hub_features(columns: Sequence[str]) -> dict[str, Any]:
    """Return the columns as the package `datasets` and hub viewers describe them; they show the pictures then."""

    def value(dtype: str) -> dict[str, str]:
        return {"dtype": dtype, "_type": "Value"}

    special: dict[str, Any] = dict.fromkeys(INTEGERS, value("int64")) | {
        # Versions before 4 read this form of a list, too.
        "boxes": [value("string")],
        "image": {"_type": "Image"},
        "posted_at": value("timestamp[ms, tz=UTC]"),
    }
    return {name: special.get(name, value("string")) for name in columns}


def read_parquet(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
    """Yield records as `Read` does, one row group in memory; a record's offset is that of its row group."""
    for number, (offset, record) in enumerate(_read(path, {_REQUIRED, (*_REQUIRED, "image")}, _records), start=1):
        if check is not None and (fault := check(record)):
            raise DamagedRecords(path, fault, offset=offset, record=number)
        yield record


def read_parquet_pictures(path: Path) -> Iterator[Picture]:
    """Yield pictures as `ReadPictures` does, one row group in memory."""
    return (picture for _, picture in _read(path, {_OF_PICTURES}, _pictures))


_REQUIRED = tuple(name for name, *_ in FEATURES if name != "image")
_OF_PICTURES = ("image_key", "image")


def _read(
    path: Path, known: Collection[tuple[str, ...]], items: Callable[[Any], Iterator[Item]]
) -> Iterator[tuple[int, Item]]:
    """Yield the items of each batch of a file with one of the `known` lists of columns, with their row group's offset.

    Raises:
        DamagedRecords: other columns, or a row group that cannot be read.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile as Reader

    offset, number = 0, 1
    try:
        stream = path.open("rb")
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}") from error
    try:
        with stream, Reader(stream, page_checksum_verification=True) as file:
            found: list[str] = file.schema_arrow.names
            if tuple(found) not in known or not file.schema_arrow.equals(_schema(found)):
                raise DamagedRecords(path, f"other columns than a dataset has ({', '.join(found)})", offset=0)
            for group in range(file.num_row_groups):
                offset = _begins(file.metadata.row_group(group))
                rows = _batch_rows(file.metadata.row_group(group))
                if not rows:
                    raise DamagedRecords(path, "record too large", offset=offset, record=number)
                for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                    for item in items(batch):
                        yield offset, item
                        number += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise DamagedRecords(path, f"broken row group ({what})", offset=offset, record=number) from error


def _batch_rows(group: Any) -> int:
    """Return how many rows of a row group to decode at once; 0 if one may not fit `_BATCH_BYTES`.

    A value in a dictionary may be repeated in every row, and any number of times in the list of one. Values outside are
    as large as their column, all together.
    """
    columns = [group.column(at) for at in range(group.num_columns)]
    a_row = once = 0
    for column in columns:
        if column.has_dictionary_page:
            a_row += column.total_uncompressed_size * (column.num_values if column.path_in_schema in _LISTS else 1)
        else:
            once += column.total_uncompressed_size
    a_row += once // max(group.num_rows, 1)
    rows: int = _BATCH_BYTES // max(a_row, 1)
    return min(_BATCH_RECORDS, rows)


def _begins(group: Any) -> int:
    columns = (group.column(at) for at in range(group.num_columns))
    return min(int(column.dictionary_page_offset or column.data_page_offset) for column in columns)


def _records(batch: Any) -> Iterator[DatasetRecord]:
    import pyarrow as pa

    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays["posted_at"] = arrays["posted_at"].cast(pa.int64())
    if "image" in arrays:
        arrays["image"] = _bytes_of(arrays["image"])
    columns = {name: array.to_pylist() for name, array in arrays.items()}
    columns["boxes"] = map(tuple, columns["boxes"])
    columns["posted_at"] = [None if time is None else time // _MILLISECONDS for time in columns["posted_at"]]
    columns.setdefault("image", [None] * batch.num_rows)
    yield from map(DatasetRecord._make, zip(*(columns[name] for name in DatasetRecord._fields), strict=True))


def _pictures(batch: Any) -> Iterator[Picture]:
    keys, images = batch.columns
    yield from map(Picture._make, zip(keys.to_pylist(), _bytes_of(images).to_pylist(), strict=True))


def _bytes_of(images: Any) -> Any:
    from pyarrow.compute import struct_field

    return struct_field(images, [0])
