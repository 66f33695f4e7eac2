"""TFRecord files, written and read without TensorFlow.

A record stands in a file as ``length (uint64) | crc of the length | payload | crc of the payload``,
little-endian, each crc a masked CRC-32C (https://www.tensorflow.org/tutorials/load_data/tfrecord).
The file's name says how it is packed (`dataset.formats.packed`); TensorFlow reads plain files and ``.gz``.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from google_crc32c import value as crc32c

from dataset.formats.packed import BrokenStream, DamagedRecords, HashedFile, Unpacked

MAX_RECORD_BYTES = 64 * 2**20
_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_pack_crc = _CRC.pack
_CRC_DELTA, _UINT32 = 0xA282EAD8, 0xFFFFFFFF
_BUFFER_BYTES = 2**18
FRAME_BYTES = _HEADER.size + _CRC.size
# Records of a dataset have a few hundred lengths: their headers are worked out once.
_KNOWN_LENGTHS = 2**16


def masked_crc(data: bytes) -> int:
    """The CRC-32C of `data`, rotated and shifted as TFRecord asks, so that a crc of crcs stays useful."""
    crc: int = crc32c(data)
    return (crc >> 15 | crc << 17) + _CRC_DELTA & _UINT32


def frame(payload: bytes) -> bytes:
    """`payload` as it stands in a TFRecord file: 16 bytes longer."""
    return b"%b%b%b" % (_headers[len(payload)], payload, _CRC.pack(masked_crc(payload)))


class _Headers(dict[int, bytes]):
    """The header of a record by its length."""

    def __missing__(self, length: int) -> bytes:
        packed = _LENGTH.pack(length)
        header = packed + _CRC.pack(masked_crc(packed))
        if len(self) < _KNOWN_LENGTHS:
            self[length] = header
        return header


_headers = _Headers()


class RecordWriter:
    """Writes one new TFRecord file; durable when closed.

    Used as a context manager. After it, `records`, `bytes` and `sha256` describe the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = self.bytes = 0
        self.sha256 = ""
        self._file = HashedFile(path)
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, payload: bytes) -> None:
        """Append one record.

        Raises:
            ValueError: it is longer than `MAX_RECORD_BYTES`.
        """
        length = len(payload)
        if length > MAX_RECORD_BYTES:
            raise ValueError(f"a record of {length:,} bytes; the limit is {MAX_RECORD_BYTES:,}")
        crc: int = crc32c(payload)
        # As `frame`, without its calls and copies.
        self._parts += _headers[length], payload, _pack_crc((crc >> 15 | crc << 17) + _CRC_DELTA & _UINT32)
        self.records += 1
        self._size += length
        if self._size >= _BUFFER_BYTES:
            self._drain()

    def close(self) -> None:
        """Write what is buffered and make it durable."""
        self._drain()
        self._file.close()
        self.bytes, self.sha256 = self._file.bytes, self._file.sha256

    def abandon(self) -> None:
        """Let go of the file after an error."""
        self._file.abandon()

    def _drain(self) -> None:
        self._file.write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0

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
            self.abandon()


def read_records(path: Path, *, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[bytes]:
    """Yield the payloads of a TFRecord file, both crcs of each checked; one record in memory.

    max_bytes: a longer record is taken for damage before it is read.

    Raises:
        DamagedRecords: cut off, altered, or not a TFRecord file; names the file, the offset and the number of the
            record.
        MemeloomError: the file cannot be read.
    """
    source, lengths = Unpacked(path), _Lengths(max_bytes)
    # `buffer[at:]` is what was read and not yet taken; `before` bytes of the stream came before the buffer.
    buffer, at, before, number = b"", 0, 0, 1
    try:
        while True:
            if len(buffer) - at < _HEADER.size:
                buffer, before, at = source.more(buffer[at:], _HEADER.size), before + at, 0
                if not buffer:
                    return
            end = at + FRAME_BYTES + lengths[buffer[at : at + _HEADER.size]]
            if end > len(buffer):
                buffer, before, at, end = source.more(buffer[at:], end - at), before + at, 0, end - at
                if end > len(buffer):
                    fault = "record cut off"
                    break
            payload = buffer[at + _HEADER.size : end - _CRC.size]
            crc: int = crc32c(payload)
            # `masked_crc` of the payload, without a call.
            if _CRC.unpack_from(buffer, end - _CRC.size)[0] != (crc >> 15 | crc << 17) + _CRC_DELTA & _UINT32:
                fault = "wrong crc of a record"
                break
            yield payload
            at = end
            number += 1
    except BrokenStream as broken:
        fault = str(broken)
    raise DamagedRecords(path, fault, offset=before + at, record=number)


class _Lengths(dict[bytes, int]):
    """The length of a record by its header."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    def __missing__(self, header: bytes) -> int:
        """Raises BrokenStream if it is no header, or tells a length above the limit."""
        if len(header) < _HEADER.size:
            raise BrokenStream("record cut off")
        length, crc = _HEADER.unpack(header)
        if crc != masked_crc(header[: _LENGTH.size]):
            raise BrokenStream("wrong crc of a record's length")
        if length > self._max_bytes:
            raise BrokenStream(f"record of {length:,} bytes (limit {self._max_bytes:,})")
        if len(self) < _KNOWN_LENGTHS:
            self[header] = length
        return int(length)
