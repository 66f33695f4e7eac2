"""Whether a caption stands on two sides of a split, or an id twice, found out in bounded memory.

Hashes of 16 bytes are compared. They are spread over files by their first byte, so that equal ones are in one file,
and one file at a time is sorted in memory.
"""

import hashlib
import struct
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from memeloom.dataset.schema import SPLITS, DatasetRecord
from memeloom.dataset.split import caption_hash

_FILE_HASHES = 500_000
_MOST_FILES = 256
_WAITING_BYTES = 2**22
_ENTRY = struct.Struct("<16sB")
_DTYPE = np.dtype([("first", "<u8"), ("last", "<u8"), ("side", "u1")])
_SIDES: Mapping[str, int] = MappingProxyType({split: side for side, split in enumerate(SPLITS)})

What: TypeAlias = Literal["id", "caption"]


def id_key(record: DatasetRecord) -> bytes:
    """A hash of the record's id."""
    return hashlib.blake2b(record.id.encode(), digest_size=16).digest()


def caption_key(record: DatasetRecord) -> bytes:
    """A hash of its template and words, whatever their case, spacing and boxes."""
    return caption_hash(record.template, record.boxes)[8:]


KEYS: Final[Mapping[What, Callable[[DatasetRecord], bytes]]] = MappingProxyType({"id": id_key, "caption": caption_key})


class Overlap(NamedTuple):
    """An id that stands more than once, or a caption in more than one split."""

    what: What
    key: bytes


class Sides:
    """Takes records and then says what overlaps. expected: about how many records will come. To be closed."""

    def __init__(self, expected: int) -> None:
        self._files = min(max(expected // _FILE_HASHES, 1), _MOST_FILES)
        self._folder = tempfile.TemporaryDirectory(prefix="memeloom-verify-")
        self._waiting: defaultdict[tuple[What, int], bytearray] = defaultdict(bytearray)
        self._size = 0

    def add(self, record: DatasetRecord) -> None:
        """Remember where a record stands."""
        side = _SIDES[record.split]
        for what, key_of in KEYS.items():
            key = key_of(record)
            self._waiting[what, key[0] * self._files >> 8] += _ENTRY.pack(key, side)
            self._size += _ENTRY.size
        if self._size >= _WAITING_BYTES:
            self._flush()

    def overlap(self) -> Overlap | None:
        """The first that was found."""
        self._flush()
        for what in KEYS:
            for number in range(self._files):
                path = self._path(what, number)
                if path.exists() and (key := _repeated(path, across=what == "caption")):
                    return Overlap(what, key)
        return None

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def _path(self, what: What, number: int) -> Path:
        return Path(self._folder.name) / f"{what}-{number:03}"

    def _flush(self) -> None:
        for (what, number), entries in self._waiting.items():
            with self._path(what, number).open("ab") as stream:
                stream.write(entries)
        self._waiting.clear()
        self._size = 0


def _repeated(path: Path, *, across: bool) -> bytes | None:
    """A key that stands twice in a file of entries; across: on two sides."""
    entries = np.fromfile(path, _DTYPE)
    ordered = entries[np.lexsort((entries["side"], entries["last"], entries["first"]))]
    same = (ordered["first"][1:] == ordered["first"][:-1]) & (ordered["last"][1:] == ordered["last"][:-1])
    if across:
        same &= ordered["side"][1:] != ordered["side"][:-1]
    found = np.flatnonzero(same)
    return ordered[found[0]].tobytes()[:16] if len(found) else None
