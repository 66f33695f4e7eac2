"""The bytes of a dataset's file: packed or not, hashed on their way to the disk, and damage named with its place.

The name decides: ``.gz`` is a gzip stream whose header carries no name and no time, ``.zst`` is one zstd frame with
a checksum, anything else is left as it is. So the same bytes in are the same bytes out.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from memeloom.configs.errors import MemeloomError

_BUFFER_BYTES = 2**18
# Of captions, level 3 makes files 9 % larger than zlib's default 6, in less than half the time.
_GZIP_LEVEL = 3
_ZSTD_LEVEL = 3
# What one such piece can unpack to is bounded: 1,032 times as much with deflate, 128 KiB for 4 bytes with zstd.
_GZIP_PIECE, _ZSTD_PIECE = 2**14, 2**10


class DamagedRecords(MemeloomError):
    """A file of a dataset that is cut off, altered, or something else.

    offset: where the record that cannot be read begins; in a packed file, of the unpacked stream. record: its number,
    the first is 1; None if no record can be named.
    """

    def __init__(self, path: Path, what: str, *, offset: int, record: int | None = None) -> None:
        where = f"byte {offset:,} of the unpacked stream" if is_packed(path) else f"byte {offset:,}"
        which = "" if record is None else f" (record {record:,})"
        super().__init__(f"{path}: {what} at {where}{which}; build the dataset again")
        self.path = path
        self.offset = offset
        self.record = record


class BrokenStream(Exception):
    """A packed stream that cannot be unpacked; the text says why."""


def is_packed(path: Path) -> bool:
    """Whether the name says that the file is packed."""
    return path.suffix in (".gz", ".zst")


class HashedFile:
    """A new file, buffered; durable when closed. `bytes` and `sha256` describe it then.

    Raises:
        FileExistsError: there is one of that name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self.sha256 = ""
        self.closed = False
        self._hash = hashlib.sha256()
        self._file: BinaryIO = path.open("xb")
        self._packer = _packer(path)
        self._waiting = bytearray()

    def write(self, data: bytes | memoryview) -> int:
        """Append `data`, as to any binary stream."""
        if not self._waiting and len(data) >= _BUFFER_BYTES:
            self._put(bytes(data) if self._packer is None else self._packer.compress(data))
            return len(data)
        self._waiting += data
        if len(self._waiting) >= _BUFFER_BYTES:
            self._drain()
        return len(data)

    def close(self) -> None:
        """Write what is buffered and make it durable."""
        if self.closed:
            return
        self.closed = True
        with self._file:
            self._drain()
            if self._packer is not None:
                self._put(self._packer.flush())
            self._file.flush()
            os.fsync(self._file.fileno())
        self.sha256 = self._hash.hexdigest()

    def abandon(self) -> None:
        """Let go of the file after an error; nothing is promised of it."""
        self.closed = True
        self._file.close()

    def _drain(self) -> None:
        data = bytes(self._waiting)
        self._waiting.clear()
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
        return zlib.compressobj(_GZIP_LEVEL, wbits=31)  # 31: a gzip stream with an empty header
    if path.suffix == ".zst":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compressobj()
    return None


class Unpacked:
    """The bytes of a file, unpacked as they are asked for; a few chunks in memory.

    Raises:
        MemeloomError: the file cannot be read.
        BrokenStream: in the midst of reading, it cannot be unpacked.
    """

    def __init__(self, path: Path) -> None:
        self._chunks = _chunks(path)

    def more(self, rest: bytes, wanted: int) -> bytes:
        """`rest` and what follows it: at least `wanted` bytes, fewer only at the end."""
        parts, have = [rest], len(rest)
        while have < wanted and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        return b"".join(parts)


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            if path.suffix == ".gz":
                yield from _inflated(stream)
            elif path.suffix == ".zst":
                yield from _unzstd(stream)
            else:
                while chunk := stream.read(_BUFFER_BYTES):
                    yield chunk
    except OSError as error:
        raise MemeloomError(f"{path}: {error.strerror or error}") from error


def _inflated(stream: BinaryIO) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        while piece := stream.read(_GZIP_PIECE):
            yield unpacker.decompress(piece)
            if unpacker.unused_data:
                raise BrokenStream("broken gzip stream (something follows its end)")
    except zlib.error as error:
        raise BrokenStream(f"broken gzip stream ({error})") from error
    if not unpacker.eof:
        raise BrokenStream("broken gzip stream (cut off)")


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        while piece := stream.read(_ZSTD_PIECE):
            if unpacker.eof:
                raise BrokenStream("broken zstd stream (something follows its end)")
            yield unpacker.decompress(piece)
            if unpacker.unused_data:
                raise BrokenStream("broken zstd stream (something follows its end)")
    except zstandard.ZstdError as error:
        raise BrokenStream(f"broken zstd stream ({error})") from error
    if not unpacker.eof:
        raise BrokenStream("broken zstd stream (cut off)")
