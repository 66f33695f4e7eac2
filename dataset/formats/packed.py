"""Compressed or plain files of a dataset: hashed while written; damage is located.

The name tells the compression: ``.gz`` is gzip without name and time in its header, ``.zst`` one zstd frame with a
checksum, anything else plain. Output is deterministic.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, cast

import zstandard
from zlib_ng import zlib_ng

from memeloom.configs.errors import MemeloomError

_BUFFER_BYTES = 2**18
# zlib-ng writes the same bytes on every processor tried (x86-64 from SSE2 to AVX-512, ARM); ISA-L, twice as fast, does
# not. On captions, its level 2 takes half the time of zlib's 3, for files of the same size.
_GZIP_LEVEL = 2
_ZSTD_LEVEL = 3
# The stubs of zlib-ng declare its error as an instance.
_BROKEN = cast("tuple[type[Exception], ...]", (zlib_ng.error, zstandard.ZstdError))
# Bounds the output of one chunk: 1,032 times its size with deflate, 128 KiB for 4 bytes with zstd.
_GZIP_PIECE, _ZSTD_PIECE = 2**14, 2**10


class DamagedRecords(MemeloomError):
    """A truncated, altered or foreign file of a dataset.

    offset: where the unreadable record begins, in the uncompressed stream. record: its number, from 1; None if unknown.
    """

    def __init__(self, path: Path, what: str, *, offset: int, record: int | None = None) -> None:
        where = f"byte {offset:,} of the unpacked stream" if is_packed(path) else f"byte {offset:,}"
        which = "" if record is None else f" (record {record:,})"
        super().__init__(f"{path}: {what} at {where}{which}; build the dataset again")
        self.path = path
        self.offset = offset
        self.record = record


class BrokenStream(Exception):
    """A compressed stream that cannot be decompressed; the message says why."""


def is_packed(path: Path) -> bool:
    """Return True if the name is that of a compressed file."""
    return path.suffix in (".gz", ".zst")


class HashedFile:
    """A new buffered file; `records`, `bytes` and `sha256` are valid once it is closed.

    A context manager, which leaves the file incomplete after an error.

    Raises:
        FileExistsError: the file exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = self.bytes = 0
        self.sha256 = ""
        self._hash = hashlib.sha256()
        self._file: BinaryIO = path.open("xb")
        self._packer = _packer(path)
        self._waiting = bytearray()

    def put(self, data: bytes | memoryview) -> None:
        """Append `data`."""
        self._waiting += data
        # Equal pieces, however the data came: compressors may tell them apart.
        while len(self._waiting) >= _BUFFER_BYTES:
            self._drain()

    def close(self) -> None:
        """Flush and fsync."""
        with self._file:
            self._drain()
            if self._packer is not None:
                self._put(self._packer.flush())
            self._file.flush()
            os.fsync(self._file.fileno())
        self.sha256 = self._hash.hexdigest()

    def abandon(self) -> None:
        """Close the file after an error, incomplete."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, incomplete after an error."""
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _drain(self) -> None:
        data = bytes(memoryview(self._waiting)[:_BUFFER_BYTES])
        del self._waiting[:_BUFFER_BYTES]
        self._put(data if self._packer is None else self._packer.compress(data))

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.bytes += len(data)


class _Packer(Protocol):
    def compress(self, data: bytes | memoryview, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _packer(path: Path) -> _Packer | None:
    if path.suffix == ".gz":
        return zlib_ng.compressobj(_GZIP_LEVEL, wbits=31)  # 31: a gzip stream with an empty header
    if path.suffix == ".zst":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj()
    return None


class Unpacked:
    """The decompressed bytes of a file, in bounded memory.

    Raises:
        MemeloomError: the file cannot be read.
        BrokenStream: it cannot be decompressed; raised while reading.
    """

    def __init__(self, path: Path) -> None:
        self._chunks = _chunks(path)

    def more(self, rest: bytes, wanted: int) -> bytes:
        """Return `rest` and the bytes after it: at least `wanted` in all, fewer only at the end."""
        parts, have = [rest], len(rest)
        while have < wanted and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        return b"".join(parts)


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            if path.suffix == ".gz":
                yield from _decompressed(stream, "gzip", zlib_ng.decompressobj(wbits=31), _GZIP_PIECE)
            elif path.suffix == ".zst":
                yield from _decompressed(stream, "zstd", zstandard.ZstdDecompressor().decompressobj(), _ZSTD_PIECE)
            else:
                while chunk := stream.read(_BUFFER_BYTES):
                    yield chunk
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}") from error


def _decompressed(stream: BinaryIO, name: str, unpacker: Any, piece_bytes: int) -> Iterator[bytes]:
    try:
        while piece := stream.read(piece_bytes):
            ended = unpacker.eof
            yield b"" if ended else unpacker.decompress(piece)
            if ended or unpacker.unused_data:
                raise BrokenStream(f"broken {name} stream (something follows its end)")
    except _BROKEN as error:
        raise BrokenStream(f"broken {name} stream ({error})") from error
    if not unpacker.eof:
        raise BrokenStream(f"broken {name} stream (cut off)")
