"""Read files decompressed in chunks, and write them compressed."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO

import zstandard

CHUNK = 256 * 1024
STDIN = Path("-")
PACKED = (".gz", ".zst")
_GZIP = b"\x1f\x8b"
_ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16)))
# Reddit's monthly dumps are compressed with `zstd --long=31`, which needs this much memory.
_ZSTD_WINDOW = 2**31
# 4 bytes may decompress to 128 KiB: this input size keeps the output of a decompression bomb below 64 MiB.
_ZSTD_INPUT = 2048


class Damage(Exception):
    """The file is truncated or damaged; the message is a short fixed phrase that is counted."""


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of `path` in chunks of about 256 KiB; the first bytes tell the compression.

    Raises:
        Damage: the file is truncated, damaged or unreadable; everything before that was yielded.
    """
    waiting: list[bytes] = []
    size = 0
    try:
        for piece in _read_pieces(path):
            waiting.append(piece)
            size += len(piece)
            if size >= CHUNK:
                yield b"".join(waiting)
                waiting, size = [], 0
    except Damage:
        yield b"".join(waiting)
        raise
    except OSError as error:
        yield b"".join(waiting)
        raise Damage((error.strerror or "cannot be read").lower()) from error
    yield b"".join(waiting)


@contextmanager
def packed_writer(path: Path, stream: IO[bytes]) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes into `stream`, compressed according to the suffix of `path`."""
    if path.suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
            yield packed.write
    elif path.suffix == ".zst":
        with zstandard.ZstdCompressor(level=6).stream_writer(stream, closefd=False) as frame:
            yield frame.write
    else:
        yield stream.write


def _read_pieces(path: Path) -> Iterator[bytes]:
    with open(sys.stdin.fileno(), "rb", closefd=False) if path == STDIN else path.open("rb") as stream:
        first = stream.peek(4)
        if first.startswith(_GZIP):
            yield from _gunzip(stream)
        elif first.startswith(_ZSTD):
            yield from _unzstd(stream)
        else:
            while piece := stream.read1(CHUNK):
                yield piece


def _gunzip(stream: BufferedReader) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
        try:
            # read1, because read would lose its data when the stream is truncated
            while piece := unpacked.read1(CHUNK):
                yield piece
        except EOFError:
            raise Damage("cut off") from None
        except (gzip.BadGzipFile, zlib.error):
            raise Damage("damaged archive") from None


def _unzstd(stream: BufferedReader) -> Iterator[bytes]:
    frame = _zstd().decompressobj()
    begun = False
    while rest := stream.read(_ZSTD_INPUT):
        while rest:
            try:
                piece = frame.decompress(rest)
            except zstandard.ZstdError as error:
                raise Damage(_zstd_reason(error)) from None
            if piece:
                yield piece
            begun, rest = not frame.eof, frame.unused_data
            if frame.eof:
                frame = _zstd().decompressobj()
    if begun:
        raise Damage("cut off")


def _zstd() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)


def _zstd_reason(error: zstandard.ZstdError) -> str:
    return "packed with too large a window" if "memory" in str(error) else "damaged archive"
