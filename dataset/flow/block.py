"""A block: some thousand memes of the catalog after filtering, in one file that is read in slices.

It is a result in the work folder, whose metadata is a `Head`. A preamble holds the offsets of the sections:

    index     offsets of the rows of each split and prefix of the order
    rows      one `ROW` for each caption kept, sorted by split and order
    keys      of the bands of words, (BANDS, rows); sketches: one `SKETCH` for each row
    copies    keys that similar captions share whatever their template, (rows, COPY_KEYS)
    segments  keys of the segments of perceptual hashes, (SEGMENTS, rows); hashes: (rows, 4); only with pictures
    lines     the captions as JSON, in the order of the rows
    memes     one `MEME` for each meme read, so that a later build filters only what changed
    dropped   the dropped captions, packed by `dataset.flow.drops`; empty unless they are kept
"""

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from io import FileIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.flow.drops import Line, unpack_lines
from memeloom.dataset.flow.similarity import COPY_KEYS, Signatures, Words
from memeloom.dataset.flow.work import WorkFolder, block_name, digest_of

Array: TypeAlias = NDArray[Any]

# order, low: hash to sort captions by. posted: see `Facts.posted`. template, source: hashes of names.
# check: hash of the line. start, length: position of the line. row: its number in the block.
ROW: Final = np.dtype([
    ("order", "<u8"), ("low", "<u8"), ("posted", "<i8"), ("template", "<u8"), ("source", "<u8"), ("check", "<u8"),
    ("start", "<u4"), ("length", "<u4"), ("row", "<u4"), ("split", "<u4"),
])  # fmt: skip
SKETCH: Final = np.dtype([("order", "<u8"), ("bits", "<u8", (4,))])
# A meme of the piece. check: hash of its record. log: order of its dropped line, or 0. template: its number in
# `Head.naming`. outcome: the number of its row, or -1 - n if it was dropped for `Head.drops[n]`.
MEME: Final = np.dtype([("check", "<u8", (2,)), ("log", "<u8"), ("template", "<u4"), ("outcome", "<i4")])
# By the pigeonhole principle, hashes of 256 bits that differ in at most 12 agree in one of 13 segments.
SEGMENTS: Final = 13
# Rows are indexed by the first bits of their order.
PREFIX_BITS: Final = 10
_PREFIXES = 1 << PREFIX_BITS
_SPLITS = 3
_INDEXED = _SPLITS * (_PREFIXES + 1)
_MAGIC = int.from_bytes(b"mlblock4", "little")
_SECTIONS = ("index", "rows", "keys", "sketches", "copies", "segments", "hashes", "lines", "memes", "dropped", "end")
_PREAMBLE = 2 + len(_SECTIONS)


@dataclass(frozen=True)
class Head:
    """Metadata of a block.

    Attributes:
        digest: hash of the settings and code that filtered them.
        first, last: ids of the first and the last meme of the piece.
        memes: number of memes read.
        rows: number of captions kept.
        pictures: True if any caption has a picture, and pictures are compared.
        dropped: number of memes by reason and source.
        details: number of drops by reason and matched entry of a list.
        drops: reason, source and matched entry of all kinds of drops, sorted.
        naming: `naming_key` of the templates that the memes name, by id, sorted; of "" for memes without template.
        templates: id, name and slug of the templates of the rows, by the hash in the rows.
        sources: names of the sources of the rows, likewise.
    """

    digest: str
    first: str
    last: str
    memes: int
    rows: int
    pictures: bool
    dropped: Mapping[str, Mapping[str, int]]
    details: Mapping[str, Mapping[str, int]]
    drops: Sequence[Sequence[str]]
    naming: Mapping[str, str]
    templates: Mapping[str, list[str]]
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Pairs:
    """Candidate search: near-duplicates share a key in `keys`, (n, rows); `values` compare candidates."""

    keys: Words
    values: Words


def write_block(
    work: WorkFolder, key: str, head: Head, rows: Array, lines: Sequence[bytes], memes: Array, dropped: bytes,
    words: Signatures, pictures: Pairs | None,
) -> None:  # fmt: skip
    """Write a block, atomically. `rows` are sorted by split and order; all else is in the order of the rows.

    Raises:
        MemeloomError: the file cannot be written (for example, the disk is full).
    """
    sketches = np.empty(len(rows), SKETCH)
    sketches["order"], sketches["bits"] = rows["order"], words.sketches
    parts: tuple[bytes, ...] = (
        _index(rows).tobytes(),
        rows.tobytes(),
        np.ascontiguousarray(words.keys).tobytes(),
        sketches.tobytes(),
        words.copies.tobytes(),
        np.ascontiguousarray(pictures.keys).tobytes() if pictures else b"",
        pictures.values.tobytes() if pictures else b"",
        b"".join(lines),
        memes.tobytes(),
        dropped,
    )
    offsets = itertools.accumulate(map(len, parts), initial=8 * _PREAMBLE)
    preamble = np.array([_MAGIC, len(rows), *offsets], "<u8").tobytes()
    work.write_result(block_name(key), b"".join((preamble, *parts)), vars(head))


def read_head(work: WorkFolder, key: str) -> Head:
    """Return the metadata of a block. Raises MemeloomError if it is damaged, or of another version."""
    metadata = work.metadata(block_name(key))
    try:
        return Head(**{field.name: metadata[field.name] for field in fields(Head)})
    except KeyError as error:
        raise MemeloomError(f"block {key} is of another version; remove its folder and build again") from error


def content_of(blocks: Iterable[tuple[str, Head]]) -> str:
    """Return a hash of blocks, given by key and metadata: of their memes, and of what the catalog says of templates."""
    content = hashlib.blake2b(digest_size=16)
    for key, head in blocks:
        content.update(digest_of(key, head.naming).encode())
    return content.hexdigest()


def _index(rows: Array) -> NDArray[np.uint32]:
    places = (rows["order"] >> np.uint64(64 - PREFIX_BITS)).astype(np.int64) + rows["split"].astype(
        np.int64
    ) * _PREFIXES
    ends = np.searchsorted(places, np.arange(_SPLITS * _PREFIXES + 1))
    return np.stack([ends[at * _PREFIXES : (at + 1) * _PREFIXES + 1] for at in range(_SPLITS)]).astype("<u4")


class Block:
    """An open block with `rows` captions."""

    def __init__(self, stream: FileIO) -> None:
        self._stream = stream
        start = np.zeros(_PREAMBLE, "<u8")
        if not _fill(stream, start) or start[0] != _MAGIC:
            raise MemeloomError(f"{stream.name}: not a block; remove its folder and build the dataset again")
        preamble: list[int] = start.tolist()
        self.rows = preamble[1]
        self._at = dict(zip(_SECTIONS, preamble[2:], strict=True))

    def range_of(self, split: int, first: int = 0, last: int = _PREFIXES) -> tuple[int, int]:
        """Return begin and end of the rows of `split`, of those with prefixes from `first` to before `last`."""
        begin, end = (int(self._read("index", "<u4", 1, 4 * (split * (_PREFIXES + 1) + at))[0]) for at in (first, last))
        return begin, end

    def between(self, begin: int, end: int) -> Array:
        """Return the rows from `begin` to `end`."""
        return self._read("rows", ROW, end - begin, begin * ROW.itemsize)

    def lines(self, starts: Array, lengths: Array) -> list[bytes]:
        """Return the lines at `starts`, which ascend."""
        if not len(starts):
            return []
        begin, end = int(starts[0]), int(starts[-1]) + int(lengths[-1])
        data = self._read("lines", "u1", end - begin, begin).tobytes()
        return [data[s : s + n] for s, n in zip((starts - starts[0]).tolist(), lengths.tolist(), strict=True)]

    def line(self, start: int, length: int) -> bytes:
        """Return one line."""
        return os.pread(self._stream.fileno(), length, self._at["lines"] + start)

    def lines_of(self, rows: Array) -> list[bytes]:
        """Return the lines of rows in any order."""
        where = self.between(0, self.rows)[rows]
        begins = where["start"].astype(np.int64) + self._at["lines"]
        with mmap(self._stream.fileno(), 0, access=ACCESS_READ) as content:
            return [content[at : at + n] for at, n in zip(begins.tolist(), where["length"].tolist(), strict=True)]

    def memes(self) -> Array:
        """Return a `MEME` for each meme of the piece, in their order."""
        return self._read("memes", MEME, (self._at["dropped"] - self._at["memes"]) // MEME.itemsize)

    def dropped(self, first: int, last: int) -> list[Line]:
        """Return the dropped captions whose orders are from `first` to `last`, both included."""
        if self._at["end"] == self._at["dropped"]:
            return []
        return unpack_lines(self._stream, self._at["dropped"], first, last)

    def keys(self, number: int) -> Words:
        """Return the keys of a band of words, one a row."""
        return self._read("keys", "<u8", self.rows, 8 * self.rows * number)

    def sketches(self, begin: int = 0, end: int | None = None) -> Array:
        """Return a `SKETCH` for each row from `begin` to `end`."""
        count = (self.rows if end is None else end) - begin
        return self._read("sketches", SKETCH, count, begin * SKETCH.itemsize)

    def copies(self, begin: int, end: int) -> NDArray[np.uint32]:
        """Return the copy keys of the rows from `begin` to `end`, (rows, COPY_KEYS)."""
        return self._read("copies", "<u4", COPY_KEYS * (end - begin), 4 * COPY_KEYS * begin).reshape(-1, COPY_KEYS)

    def segments(self, number: int) -> Words:
        """Return the keys of a segment of perceptual hashes: 0 for rows without picture; empty without any."""
        return self._read("segments", "<u8", self.rows if self._has_pictures else 0, 8 * self.rows * number)

    def hashes(self) -> Words:
        """Return the perceptual hashes, (rows, 4); empty without any picture."""
        return self._read("hashes", "<u8", 4 * self.rows if self._has_pictures else 0).reshape(-1, 4)

    @property
    def _has_pictures(self) -> bool:
        return self._at["hashes"] > self._at["segments"]

    def _read(self, section: str, kind: Any, count: int, offset: int = 0) -> Array:
        self._stream.seek(self._at[section] + offset)
        found = np.empty(count, kind)
        if not _fill(self._stream, found):
            raise MemeloomError(f"{self._stream.name}: cut off; remove its folder and build the dataset again")
        return found


def _fill(stream: FileIO, values: Array) -> bool:
    """Read `values` from a stream; False if it ends before. `np.fromfile` takes twice as long for few."""
    left = values.view(np.uint8).data
    while left:
        count = stream.readinto(left)
        if not count:
            return False
        left = left[count:]
    return True


def power_of_two(count: int, each: int) -> int:
    """Return the number of parts of about `each` for `count`; it rarely changes as data grows, so boundaries stay."""
    parts = 1
    while parts * each < count and parts < 1 << PREFIX_BITS:
        parts *= 2
    return parts


@contextmanager
def open_block(path: Path) -> Iterator[Block]:
    """Open a block. Raises MemeloomError for another kind of file, OSError if it cannot be read."""
    with path.open("rb", buffering=0) as stream:
        yield Block(stream)
