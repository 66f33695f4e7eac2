"""Sketches as the catalog keeps them: with the picture that each was made from, so that another one is noticed."""

import struct
import time
from dataclasses import dataclass
from typing import Self

from memeloom.catalog.documents import StoredSketch
from memeloom.catalog.images import hamming
from memeloom.catalog.records import Image
from memeloom.templates.sketch import Sketch

_HEAD = struct.Struct(">B32s32sdH")
_VERSION = 1
_MARK = b"asked"
_COPY_BITS = 8  # of 256: a meme that was compressed again differs by no more, one with another caption does


@dataclass(frozen=True, slots=True)
class Kept:
    """The sketch of a stored picture.

    picture, phash256: the picture's key and hash, in hex.
    since: when it was put into the catalog, in seconds since 1970.
    copy_of: id of the meme that this one was found to be a copy of, else "".
    """

    picture: str
    phash256: str
    since: float
    sketch: Sketch
    copy_of: str = ""

    @classmethod
    def of(cls, image: Image, sketch: Sketch) -> Self:
        """`sketch`, which was made from `image` just now."""
        return cls(image.key, image.phash256, time.time(), sketch)

    def stored(self, template: str, meme: str) -> StoredSketch:
        """As it goes into the catalog under (template, meme)."""
        copy_of = self.copy_of.encode()
        head = _HEAD.pack(_VERSION, bytes.fromhex(self.picture), bytes.fromhex(self.phash256), self.since, len(copy_of))
        return StoredSketch(template, meme, head + copy_of + self.sketch.to_bytes())

    @classmethod
    def read(cls, stored: StoredSketch) -> Self | None:
        """What `stored` gave; None if another version of memeloom did, or if it is damaged."""
        if len(stored.data) <= _HEAD.size or stored.data[0] != _VERSION:
            return None
        _, picture, phash256, since, length = _HEAD.unpack_from(stored.data)
        copy_of, rest = (stored.data[_HEAD.size :][:length], stored.data[_HEAD.size + length :])
        try:
            sketch = Sketch.from_bytes(rest)
            known = copy_of.decode()
        except ValueError:
            return None
        return cls(picture.hex(), phash256.hex(), since, sketch, known) if sketch else None

    def is_of(self, image: Image | None) -> bool:
        """Whether it was made from `image`."""
        return image is not None and self.picture == image.key

    def copies(self, other: Self) -> bool:
        """Whether both are one meme, caption and all, though perhaps compressed anew."""
        return hamming(self.phash256, other.phash256) <= _COPY_BITS


def mark(template: str, picture: str = "") -> StoredSketch:
    """In the place of the sketch of a template's own picture: there is none, or `picture` (its key) is too plain."""
    return StoredSketch(template, "", _MARK + picture.encode())


def marked(stored: StoredSketch) -> str | None:
    """The key of the picture that `mark` was given; None if something else gave `stored`."""
    return stored.data[len(_MARK) :].decode("ascii", "replace") if stored.data.startswith(_MARK) else None
