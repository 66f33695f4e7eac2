"""TFRecord files, written and read without TensorFlow.

A record stands in a file as ``length (uint64) | crc of the length | payload | crc of the payload``,
little-endian, each crc a masked CRC-32C (https://www.tensorflow.org/tutorials/load_data/tfrecord).
A name that ends in ``.gz`` makes it a gzip stream; its header carries no name and no time, so the
same records are the same bytes.
"""

import gzip
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from google_crc32c import value as crc32c

from configs.errors import MemeloomError

MAX_RECORD_BYTES = 64 * 2**20
_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_BUFFER_BYTES = 2**18


class DamagedRecords(MemeloomError):
    """A TFRecord file that is cut off, altered, or none at all."""

    def __init__(self, path: Path, offset: int, what: str, compressed: bool) -> None:
        where = f"byte {offset} of the unpacked stream" if compressed else f"byte {offset}"
        super().__init__(f"{path}: {what} at {where}; build the dataset again")
        self.path = path
        self.offset = offset


def masked_crc(data: bytes) -> int:
    """The CRC-32C of `data`, rotated and shifted as TFRecord asks, so that a crc of crcs stays useful."""
    crc = int(crc32c(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """`payload` as it stands in a TFRecord file: 16 bytes longer."""
    length = _LENGTH.pack(len(payload))
    return b"".join((length, _CRC.pack(masked_crc(length)), payload, _CRC.pack(masked_crc(payload))))


class RecordWriter:
    """Writes one new TFRecord file; durable when closed.

    Used as a context manager. After it, `records`, `bytes` and `sha256` describe the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = 0
        self.bytes = 0
        self.sha256 = ""
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._file: BinaryIO = path.open("xb")
        # wbits 31: a gzip stream with an empty header (no name, mtime 0).
        self._packer = zlib.compressobj(wbits=31) if is_compressed(path) else None

    def write(self, payload: bytes) -> None:
        """Append one record.

        Raises:
            ValueError: it is longer than `MAX_RECORD_BYTES`.
        """
        if len(payload) > MAX_RECORD_BYTES:
            raise ValueError(f"a record of {len(payload):,} bytes; the limit is {MAX_RECORD_BYTES:,}")
        self._buffer += frame(payload)
        self.records += 1
        if len(self._buffer) >= _BUFFER_BYTES:
            self._drain()

    def close(self) -> None:
        """Write what is buffered and make it durable."""
        with self._file:
            self._drain()
            if self._packer is not None:
                self._put(self._packer.flush())
            self._file.flush()
            os.fsync(self._file.fileno())
        self.sha256 = self._hash.hexdigest()

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error without the promise that the file is whole."""
        if kind is None:
            self.close()
        else:
            self._file.close()

    def _drain(self) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        self._put(data if self._packer is None else self._packer.compress(data))

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.bytes += len(data)


def read_records(path: Path, *, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yield the payloads of a TFRecord file, both crcs of each checked; one record in memory.

    max_bytes: a longer record is taken for damage before it is read.

    Raises:
        DamagedRecords: cut off, altered, or not a TFRecord file; names the file and the offset of the record.
        MemeloomError: the file cannot be read.
    """
    compressed = is_compressed(path)
    offset = 0
    try:
        with _open(path) as stream:
            while header := stream.read(_HEADER.size):
                payload, fault = _read_payload(stream, header, max_bytes)
                if fault:
                    raise DamagedRecords(path, offset, fault, compressed)
                yield payload
                offset += _HEADER.size + len(payload) + _CRC.size
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedRecords(path, offset, f"broken gzip stream ({error})", compressed) from error
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}") from error


def is_compressed(path: Path) -> bool:
    """Whether `path` names a gzip-packed TFRecord file."""
    return path.suffix == ".gz"


def _open(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if is_compressed(path) else path.open("rb")


def _read_payload(stream: BinaryIO, header: bytes, max_bytes: int) -> tuple[bytes, str]:
    """The payload after `header`, and what is wrong with the record ("" if nothing)."""
    if len(header) < _HEADER.size:
        return b"", "record cut off"
    length, crc = _HEADER.unpack(header)
    if crc != masked_crc(header[: _LENGTH.size]):
        return b"", "wrong crc of a record's length"
    if length > max_bytes:
        return b"", f"record of {length:,} bytes (limit {max_bytes:,})"
    payload = stream.read(length)
    tail = stream.read(_CRC.size)
    if len(payload) < length or len(tail) < _CRC.size:
        return b"", "record cut off"
    if _CRC.unpack(tail)[0] != masked_crc(payload):
        return b"", "wrong crc of a record"
    return payload, ""
