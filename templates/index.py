"""Recognises templates by their perceptual hashes: 64 bits propose, 256 bits verify.

Text drawn on a template moves both hashes. Over 10,000 templates the nearest 64-bit hash is often
a stranger's, but a stranger's 256 bits differ by about half, and text never moves them that far:
the second look is what keeps a wrong template out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.records import Image, Template, TemplateRef

Bits = NDArray[np.uint64]

# A hash marks the frequencies above their median, about half of them. In a picture that is almost
# one colour most are zero, few are marked, and all such pictures would look alike.
_FEWEST_BITS = 96


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a picture is made on.

    template: None for ``unknown``.
    distance: bits of 64 to that template; if unknown, to the nearest one; None if the index is empty.
    """

    template: TemplateRef | None
    distance: int | None


class TemplateIndex:
    """Templates by hash. Grows in place; a look-up among 10,000 takes well under a millisecond."""

    def __init__(self, max_distance: int, max_distance_256: int) -> None:
        self._max_distance = max_distance
        self._max_distance_256 = max_distance_256
        self._templates: list[Template] = []
        self._short: Bits = np.empty(0, np.uint64)
        self._long: Bits = np.empty((0, 4), np.uint64)

    def __len__(self) -> int:
        """How many templates can be recognised."""
        return len(self._templates)

    def add(self, template: Template) -> bool:
        """Make `template` known. False if it has no picture, or one too plain to be recognised."""
        if template.image is None or int(template.image.phash256, 16).bit_count() < _FEWEST_BITS:
            return False
        size = len(self._templates)
        if size == len(self._short):
            room = max(64, 2 * size)
            self._short = np.resize(self._short, room)
            self._long = np.resize(self._long, (room, 4))
        self._short[size] = _bits(template.image.phash64)[0]
        self._long[size] = _bits(template.image.phash256)
        self._templates.append(template)
        return True

    def match(self, image: Image) -> Verdict:
        """The template whose 256 bits are nearest, of those within both distances."""
        size = len(self._templates)
        if not size:
            return Verdict(None, None)
        short = np.bitwise_count(self._short[:size] ^ _bits(image.phash64))
        proposed = np.flatnonzero(short <= self._max_distance)
        if len(proposed):
            long = np.bitwise_count(self._long[proposed] ^ _bits(image.phash256)).sum(axis=1)
            nearest = int(long.argmin())
            if long[nearest] <= self._max_distance_256:
                place = int(proposed[nearest])
                distance = int(short[place])
                ref = self._templates[place].ref()
                return Verdict(ref.model_copy(update={"known": "match", "distance": distance}), distance)
        return Verdict(None, int(short.min()))


def _bits(digest: str) -> Bits:
    """A hex hash as words of 64 bits."""
    return np.frombuffer(bytes.fromhex(digest), np.uint64)
