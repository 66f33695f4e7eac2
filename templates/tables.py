"""Hash tables of corners: which of the views in an index have a corner like this one, and where in them it is.

Each corner lies in several tables, under some of its bits (locality-sensitive hashing, Indyk and Motwani 1998): of
two corners that look alike some bits differ, but hardly some in every table.
"""

import numpy as np
from numpy.typing import NDArray

from templates.corners import Bits, Points

Numbers = NDArray[np.int64]

_TABLES = 5
_SLOTS = 16  # of a place: one line of a processor's cache
_PLACES_A_VIEW = 5  # of each table: two of three slots are taken in the end
_MOST_PLACES = 1 << 17  # in one table
# An entry is the number of a view plus one, x and y of the corner there in steps of 1/64, and further bits of its key.
_STEPS, _CHECKS = 64, 32
_X, _Y, _VIEW = 11, 5, 17
_FREE = np.uint32(0)
_KEY = np.uint32((1 << 20) - 1)  # of what is known of a corner in one table
_SPREAD = np.uint32(2_654_435_769)


class CornerTables:
    """Tables for some number of views (`room`), near the one that is asked for; each view has a number below it.

    A place that is full takes no more: what many pictures have there (letters, straight edges) tells little.
    """

    def __init__(self, views: int) -> None:
        places = min(_MOST_PLACES, 1 << (views * _PLACES_A_VIEW - 1).bit_length())
        self.room = places // _PLACES_A_VIEW
        self._shift = np.uint32(32 - (places - 1).bit_length())
        self._starts = np.arange(_TABLES, dtype=np.int64) * places
        self._entries = np.zeros((_TABLES * places, _SLOTS), np.uint32)

    @property
    def nbytes(self) -> int:
        """Memory, however few views there are."""
        return self._entries.nbytes

    def add(self, views: Numbers, bits: Bits, points: Points) -> None:
        """Make the corners of one picture known: of each the number of its view, and x and y in fractions of that."""
        # Of corners in one place of a table one is enough: they look alike.
        found, checks = self._find(bits)
        places, first = np.unique(found, return_index=True)
        corner = first // _TABLES
        x, y = np.minimum(points[corner] * _STEPS, _STEPS - 1).astype(np.int64).T
        entries = ((views[corner] + 1) << _VIEW | x << _X | y << _Y | checks[first]).astype(np.uint32)
        free = self._entries[places] == _FREE
        room = free.any(axis=1)
        self._entries[places[room], free[room].argmax(axis=1)] = entries[room]

    def remove(self, views: Numbers, bits: Bits) -> None:
        """Forget what was added with the same arguments."""
        places = np.unique(self._find(bits)[0])
        held = self._entries[places]
        ours = np.isin(held >> np.uint32(_VIEW), np.unique(views) + 1)
        self._entries[places] = np.where(ours, _FREE, held)

    def meet(self, bits: Bits) -> tuple[Numbers, Numbers]:
        """What the corners of a picture meet: for each time the corner, and the entry."""
        places, checks = self._find(bits)
        there = self._entries.take(places, axis=0)
        met = np.flatnonzero((there & np.uint32(_CHECKS - 1)) == checks[:, None])
        entries = there.reshape(-1)[met].astype(np.int64)
        taken = entries >= 1 << _VIEW
        return met[taken] // (_TABLES * _SLOTS), entries[taken]

    def _find(self, bits: Bits) -> tuple[Numbers, NDArray[np.uint32]]:
        """Of each corner in each table the place, and what an entry there is to be checked by."""
        words = np.ascontiguousarray(bits[:, : 4 * _TABLES]).view(np.uint32)
        # Many pictures have the same in some bits: multiplying spreads that (Knuth, vol. 3, 6.4).
        mixed = (words & _KEY) * _SPREAD
        places = (mixed >> self._shift) + self._starts
        return places.reshape(-1), (mixed >> (self._shift - np.uint32(5)) & np.uint32(_CHECKS - 1)).reshape(-1)


def shift_views(entries: Numbers, by: int) -> Numbers:
    """Entries whose views have numbers that are higher by so many."""
    return entries + (by << _VIEW)


def views_of(entries: Numbers) -> Numbers:
    """The numbers of the views that entries name."""
    return (entries >> _VIEW) - 1


def points_of(entries: Numbers) -> Points:
    """Where in their views the corners of entries are, (n, 2), x and y in fractions."""
    steps = np.stack([entries >> _X & (_STEPS - 1), entries >> _Y & (_STEPS - 1)], axis=1)
    return (steps.astype(np.float32) + np.float32(0.5)) / np.float32(_STEPS)
