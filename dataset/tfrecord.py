"""TFRecord files, written and read without TensorFlow.

A record stands in a file as ``length (uint64) | crc of the length | payload | crc of the payload``,
little-endian, each crc a masked CRC-32C (https://www.tensorflow.org/tutorials/load_data/tfrecord).
The file's name says how it is packed (`dataset.formats.packed`); TensorFlow reads plain files and ``.gz``.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from google_crc32c import value as crc32c

from memeloom.dataset.formats.packed import BrokenStream, DamagedRecords, HashedFile, Unpacked

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
    """Yield the payloads of a TFRecord file, both crcs of each checked; a buffer of them in memory.

    max_bytes: a longer record is taken for damage before it is read.

    Raises:
        DamagedRecords: cut off, altered, or not a TFRecord file; names the file, the offset and the number of the
            record.
        MemeloomError: the file cannot be read.
    """
    for payloads in read_many_records(path, max_bytes=max_bytes):
        yield from payloads


def read_many_records(path: Path, *, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[list[bytes]]:
    """As `read_records`, those of a buffer at a time."""
    source, lengths = Unpacked(path), _Lengths(max_bytes)
    # `buffer[at:]` is what was read and not yet taken; `before` bytes of the stream came before the buffer.
    buffer, at, before, number, wanted, fault = b"", 0, 0, 1, _HEADER.size, ""
    while not fault:
        try:
            buffer, before, at = source.more(buffer[at:], wanted), before + at, 0
        except BrokenStream as broken:
            fault = str(broken)
            break
        if not buffer:
            return
        if len(buffer) < wanted:
            fault = "record cut off"
            break
        payloads, ends, wanted, fault = _whole_records(buffer, lengths)
        right = _right_ones(buffer, payloads, ends)
        if right < len(payloads):
            fault = "wrong crc of a record"
        if right:
            yield payloads[:right]
            at, number = ends[right - 1], number + right
    raise DamagedRecords(path, fault, offset=before + at, record=number)


class _Whole(NamedTuple):
    """The whole records that a buffer begins with, and where they end.

    wanted: bytes that the next one has, or its header. fault: of that header, or nothing.
    """

    payloads: list[bytes]
    ends: list[int]
    wanted: int
    fault: str


def _whole_records(buffer: bytes, lengths: "_Lengths") -> _Whole:
    payloads, ends, at, size = list[bytes](), list[int](), 0, len(buffer)
    try:
        while size - at >= _HEADER.size:
            end = at + FRAME_BYTES + lengths[buffer[at : at + _HEADER.size]]
            if end > size:
                return _Whole(payloads, ends, end - at, "")
            payloads.append(buffer[at + _HEADER.size : end - _CRC.size])
            ends.append(end)
            at = end
    except BrokenStream as broken:
        return _Whole(payloads, ends, _HEADER.size, str(broken))
    return _Whole(payloads, ends, _HEADER.size, "")


def _right_ones(buffer: bytes, payloads: list[bytes], ends: list[int]) -> int:
    """How many of the records come before the first one whose crc is wrong."""
    if not payloads:
        return 0
    # The four bytes that begin at every byte.
    words = np.ndarray(len(buffer) - _CRC.size + 1, np.dtype("<u4"), buffer, strides=(1,))
    crcs = np.fromiter(map(crc32c, payloads), np.uint32, len(payloads))
    masked = (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_CRC_DELTA)
    wrong = masked != words[np.array(ends) - _CRC.size]
    return int(wrong.argmax()) if wrong.any() else len(payloads)


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
