"""Finds the templates that a picture is made on, among many thousands: hashed corners propose, pixels verify.

The corners of a picture vote for the views of templates that have corners like them (`templates.tables`); a view is
a template at one size. Corners look alike at one size only, so votes that are right agree on one shift in pixels.
The views on which most votes agree are looked at closely by `templates.placing`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from memeloom.templates.corners import Points
from memeloom.templates.placing import Placing, settle, size_at
from memeloom.templates.sketch import SIDES, Sketch
from memeloom.templates.tables import CornerTables, Numbers, points_of

_FEWEST_CORNERS = 8
_FEWEST_VOTES, _FEWEST_AGREED = 3, 5
_CONSIDERED = 100  # views at most, by their votes
_NEARLY = 0.4  # of the votes that agree on the best view
_CELL = np.float32(40)  # pixels within which shifts agree
_CELLS = 8  # a side; what lies farther comes round again
_FAR = 1 << 12  # cells: no shift is so large
_OFFSETS = np.array([(0, 0), (1, 1), (0, 1), (1, 0)], np.int32)  # in half cells
_LEVELS = np.arange(len(SIDES))


@dataclass(frozen=True)
class Match:
    """A sketch of the index that a picture shows. key: under which it was added."""

    key: str
    placing: Placing


@dataclass(frozen=True, slots=True)
class _Entry:
    """A sketch, and its number in the index."""

    key: str
    sketch: Sketch
    number: int

    @property
    def views(self) -> Numbers:
        """Of each corner the number of its view."""
        return np.repeat(self.number * len(SIDES) + _LEVELS, self.sketch.counts)


class SketchIndex:
    """Sketches by key. Grows and shrinks in place: tables that are full get others beside them, none is built again.

    A sketch takes 10 kB and its share of the tables 8 kB or a little more.

    min_agreement: share of a template's blocks in view that a picture must show, 0-1.
    """

    def __init__(self, min_agreement: float) -> None:
        self._min_agreement = min_agreement
        self._entries: dict[str, _Entry] = {}
        self._owners: list[_Entry | None] = []  # by number
        self._free: list[int] = []
        self._tables = CornerTables(len(SIDES))
        self._sizes = np.empty((0, 2), np.float32)  # of all views, in pixels

    def __len__(self) -> int:
        """How many sketches there are."""
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        """Whether a sketch is there under `key`."""
        return key in self._entries

    @property
    def nbytes(self) -> int:
        """Memory of the tables, in bytes."""
        return self._tables.nbytes + self._sizes.nbytes

    def add(self, key: str, sketch: Sketch) -> bool:
        """Make a sketch known, in place of what is there under `key`. False if it is too plain to be recognised."""
        self.remove(key)
        if sketch.counts[0] < _FEWEST_CORNERS:
            return False
        if not self._free:
            self._grow()
        entry = _Entry(key, sketch, self._free.pop())
        self._tables.add(entry.views, sketch.bits, sketch.points)
        self._entries[key] = self._owners[entry.number] = entry
        self._sizes[entry.number * len(SIDES) + _LEVELS] = [size_at(sketch, level) for level in range(len(SIDES))]
        return True

    def remove(self, key: str) -> None:
        """Forget the sketch under `key`, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._tables.remove(entry.views, entry.sketch.bits)
            self._owners[entry.number] = None
            self._free.append(entry.number)

    def find(self, sketch: Sketch, most: int = 1) -> list[Match]:
        """Up to `most` sketches that the picture shows, mirrored or not, the one with the highest agreement first."""
        found: dict[str, Match] = {}
        self._find(sketch, most, found, mirrored=False)
        if len(found) < most:
            self._find(sketch.mirrored, most, found, mirrored=True)
        return sorted(found.values(), key=lambda match: -match.placing.agreement)

    def _grow(self) -> None:
        self._tables.grow()
        before, now = len(self._owners), self._tables.room // len(SIDES)
        self._free = list(range(now - 1, before - 1, -1))
        self._owners += [None] * (now - before)
        self._sizes = np.concatenate([self._sizes, np.ones(((now - before) * len(SIDES), 2), np.float32)])

    def _find(self, sketch: Sketch, most: int, found: dict[str, Match], *, mirrored: bool) -> None:
        for view, here, there in self._propose(sketch, most):
            owner = self._owners[view // len(SIDES)]
            if owner is None or owner.key in found:
                continue
            placing = settle(sketch, owner.sketch, view % len(SIDES), here, there)
            if placing and placing.shows(self._min_agreement):
                found[owner.key] = Match(owner.key, replace(placing, mirrored=mirrored))
                if len(found) == most:
                    return

    def _propose(self, sketch: Sketch, most: int) -> Iterator[tuple[int, Points, Points]]:
        """The views that a picture may show, likeliest first; and the points that vote for it, here and there."""
        bits = sketch.bits[: sketch.counts[0]]
        corners, views, entries = self._tables.meet(bits)
        likely = _most_voted(views)
        if not len(likely):
            return
        # From here on views are counted by their places in `likely`.
        voted = np.minimum(np.searchsorted(likely, views), len(likely) - 1)
        usable = np.flatnonzero(likely[voted] == views)
        voted, here, there = voted[usable], sketch.points[corners[usable]], points_of(entries[usable])
        agreed = _agreed(voted, there * self._sizes[likely[voted]] - here * size_at(sketch, 0), len(likely))
        # Whoever asks for one wants the best: what has far fewer votes is not looked at.
        least = max(_FEWEST_AGREED, _NEARLY * agreed.max() if most == 1 else 0)
        for best in np.argsort(-agreed, kind="stable")[: 2 * most + 1]:
            if agreed[best] < least:
                break
            ours = voted == best
            yield int(likely[best]), here[ours], there[ours]


def _most_voted(views: Numbers) -> Numbers:
    """Those with the most votes, by number."""
    ordered = np.sort(views)
    # With so many equal ones in a row, the first and the last of them are equal.
    likely = np.unique(ordered[_FEWEST_VOTES - 1 :][ordered[_FEWEST_VOTES - 1 :] == ordered[: 1 - _FEWEST_VOTES]])
    if len(likely) <= _CONSIDERED:
        return likely
    votes = np.searchsorted(ordered, likely, "right") - np.searchsorted(ordered, likely, "left")
    return np.sort(likely[np.argpartition(-votes, _CONSIDERED)[:_CONSIDERED]])


def _agreed(voted: Numbers, shifts: Points, views: int) -> Numbers:
    """How many votes for each view agree on one shift, give or take."""
    best = np.zeros(views, np.int64)
    halves = (shifts * (2 / _CELL) + np.float32(_FAR)).astype(np.int32)
    for offset in _OFFSETS:
        x, y = ((halves + offset) // 2 % _CELLS).T
        counts = np.bincount((voted * _CELLS + x) * _CELLS + y, minlength=views * _CELLS * _CELLS)
        np.maximum(best, counts.reshape(views, _CELLS * _CELLS).max(axis=1, initial=0), out=best)
    return best
