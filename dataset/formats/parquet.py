"""Parquet files, for data frames, DuckDB, Spark and the package `datasets`. Needs the extra ``parquet``.

One column per feature: text as strings, `boxes` as a list of strings, `image` as bytes, integers as nullable int64,
`posted_at` as a nullable timestamp. Pages have a CRC-32. A row group holds 4,096 records or 8 MiB of pictures, which
bounds memory. Output is deterministic for one version of pyarrow.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.contract import Check, Compression
from memeloom.dataset.formats.packed import DamagedRecords, HashedFile
from memeloom.dataset.schema import FEATURES, INTEGERS, DatasetRecord

_GROUP_RECORDS = 4096
_GROUP_BYTES = 8 * 2**20
_BATCH_RECORDS = 512
_MILLISECONDS = 1000
# Columns with repeated values, worth a dictionary and statistics.
_REPEATING = ["template", "template_name", "source", "split"]


class ParquetFile(HashedFile):
    """Writes records to a Parquet file."""

    def __init__(self, path: Path, compression: Compression, *, pictures: bool) -> None:
        from pyarrow.parquet import ParquetWriter

        super().__init__(path)
        self._columns = [name for name, *_ in FEATURES if pictures or name != "image"]
        self._schema = _schema(self._columns)
        self._writer: Any = ParquetWriter(
            _Stream(self),
            self._schema,
            compression=compression,
            write_page_checksum=True,
            use_dictionary=_REPEATING,
            write_statistics=_REPEATING,
        )
        self._group: list[DatasetRecord] = []
        self._group_bytes = 0

    def write(self, record: DatasetRecord) -> None:
        """Append a record."""
        self._group.append(record)
        self._group_bytes += len(record.image or b"")
        self.records += 1
        if len(self._group) >= _GROUP_RECORDS or self._group_bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Flush and fsync."""
        if self._group:
            self._write_group()
        self._writer.close()
        super().close()

    def _write_group(self) -> None:
        import pyarrow as pa

        columns = zip(*self._group, strict=True)
        by_name = dict(zip(DatasetRecord._fields, columns, strict=True))
        by_name["posted_at"] = tuple(None if time is None else time * _MILLISECONDS for time in by_name["posted_at"])
        arrays = [pa.array(by_name[name], self._schema.field(name).type) for name in self._columns]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._group.clear()
        self._group_bytes = 0


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


def _schema(columns: list[str]) -> Any:
    import pyarrow as pa

    types = dict.fromkeys(INTEGERS, pa.int64()) | {
        "boxes": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "image": pa.binary(),
        "posted_at": pa.timestamp("ms", tz="UTC"),  # Parquet has no seconds
    }
    return pa.schema([pa.field(name, types.get(name, pa.string()), nullable=name in INTEGERS) for name in columns])


def read_parquet(path: Path, check: Check | None = None) -> Iterator[DatasetRecord]:
    """Yield records as `Read` does, one row group in memory; a record's offset is that of its row group."""
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
            if not file.schema_arrow.equals(_schema(found)) or set(found) - {"image"} != set(_REQUIRED):
                raise DamagedRecords(path, f"other columns than a dataset has ({', '.join(found)})", offset=0)
            for group in range(file.num_row_groups):
                offset = _begins(file.metadata.row_group(group))
                for batch in file.iter_batches(_BATCH_RECORDS, row_groups=[group], use_threads=False):
                    for record in _records(batch):
                        if check is not None and (fault := check(record)):
                            raise DamagedRecords(path, fault, offset=offset, record=number)
                        yield record
                        number += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise DamagedRecords(path, f"broken row group ({what})", offset=offset, record=number) from error


_REQUIRED = tuple(name for name, *_ in FEATURES if name != "image")


def _begins(group: Any) -> int:
    columns = (group.column(at) for at in range(group.num_columns))
    return min(int(column.dictionary_page_offset or column.data_page_offset) for column in columns)


def _records(batch: Any) -> Iterator[DatasetRecord]:
    import pyarrow as pa

    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays["posted_at"] = arrays["posted_at"].cast(pa.int64())
    columns = {name: array.to_pylist() for name, array in arrays.items()}
    columns["boxes"] = map(tuple, columns["boxes"])
    columns["posted_at"] = [None if time is None else time // _MILLISECONDS for time in columns["posted_at"]]
    columns.setdefault("image", [None] * batch.num_rows)
    yield from map(DatasetRecord._make, zip(*(columns[name] for name in DatasetRecord._fields), strict=True))
