"""Finds the templates that a picture is made on, among many thousands: hashed corners propose, pixels verify.

Each corner of each template lies in several hash tables, under some of its bits (locality-sensitive hashing,
Indyk and Motwani 1998). The corners of a picture vote for the templates that they meet there; where a
template gets several votes, `templates.placing` looks closely.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from templates.corners import Bits
from templates.placing import Placing, place
from templates.sketch import Sketch

_TABLES = 8
_KEY_BITS = 18
# A place in a table that overflows is common to many pictures (letters, borders): it tells nothing.
_SLOTS = 16
_FEWEST_CORNERS = 8
_LOOK_AT = 4
_FEWEST_VOTES = 3
_FREE = -1

_random = np.random.default_rng(1998)
_BITS_OF_KEY = np.stack([_random.permutation(256)[:_KEY_BITS] for _ in range(_TABLES)])
_WEIGHTS = (1 << np.arange(_KEY_BITS)).astype(np.float32)
_EACH_TABLE = np.arange(_TABLES)


@dataclass(frozen=True)
class Match:
    """A sketch of the index that a picture shows. key: under which it was added."""

    key: str
    placing: Placing


class SketchIndex:
    """Sketches by key. Grows and shrinks in place.

    min_agreement: share of a template's blocks in view that a picture must show, 0-1.
    """

    def __init__(self, min_agreement: float) -> None:
        self._min_agreement = min_agreement
        self._numbers: dict[str, int] = {}
        self._entries: list[tuple[str, Sketch] | None] = []
        self._tables = np.full((_TABLES, 1 << _KEY_BITS, _SLOTS), _FREE, np.int32)
        self._fill = np.zeros((_TABLES, 1 << _KEY_BITS), np.uint8)

    def __len__(self) -> int:
        """How many sketches there are."""
        return len(self._numbers)

    def __contains__(self, key: str) -> bool:
        """Whether a sketch is there under `key`."""
        return key in self._numbers

    def add(self, key: str, sketch: Sketch) -> bool:
        """Make a sketch known, in place of what is there under `key`. False if it is too plain to be recognised."""
        self.remove(key)
        if len(sketch.bits) < _FEWEST_CORNERS:
            return False
        number = len(self._entries)
        self._numbers[key] = number
        self._entries.append((key, sketch))
        for table, keys in enumerate(_hashes(sketch.bits).T):
            places = np.unique(keys)
            fill = self._fill[table, places]
            room = fill < _SLOTS
            self._tables[table, places[room], fill[room]] = number
            self._fill[table, places[room]] += 1
        return True

    def remove(self, key: str) -> None:
        """Forget the sketch under `key`, if there is one."""
        number = self._numbers.pop(key, None)
        if number is not None:
            self._entries[number] = None

    def find(self, sketch: Sketch, most: int = 1) -> list[Match]:
        """Up to `most` sketches that the picture shows, mirrored or not, the one with the highest agreement first."""
        found = self._find(sketch, most, mirrored=False)
        if len(found) < most:
            found += self._find(sketch.mirrored, most - len(found), mirrored=True)
        return sorted(found, key=lambda match: -match.placing.agreement)

    def _find(self, sketch: Sketch, most: int, *, mirrored: bool) -> list[Match]:
        found = []
        for number in self._proposed(sketch, max(_LOOK_AT, 2 * most)):
            entry = self._entries[number]
            placing = place(sketch, entry[1]) if entry else None
            if entry and placing and placing.agreement >= self._min_agreement:
                found.append(Match(entry[0], replace(placing, mirrored=mirrored)))
                if len(found) == most:
                    break
        return found

    def _proposed(self, sketch: Sketch, most: int) -> NDArray[np.int64]:
        if not len(sketch.bits) or not self._entries:
            return np.empty(0, np.int64)
        keys = _hashes(sketch.bits)
        met = self._tables[_EACH_TABLE, keys]
        met[self._fill[_EACH_TABLE, keys] >= _SLOTS] = _FREE
        votes = np.bincount(met[met != _FREE], minlength=len(self._entries))
        best = np.argsort(-votes, kind="stable")[:most]
        return best[votes[best] >= _FEWEST_VOTES]


def _hashes(bits: Bits) -> NDArray[np.int64]:
    """The keys of corners in every table, (n, tables)."""
    each = np.unpackbits(bits, axis=1)[:, _BITS_OF_KEY].astype(np.float32)
    return np.asarray(each @ _WEIGHTS, np.int64)
