"""Take the outcomes of unchanged memes from the blocks of former builds.

A meme's outcome depends on its record, on what the catalog says of its template, and on settings and code. A piece of
the catalog that changed a little still begins or ends at the same meme as before, which finds its former block; each
record there with the same hash is not filtered again.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.flow.block import SEGMENTS, Array, Block, Head, Pairs, open_block, read_head
from memeloom.dataset.flow.drops import Line
from memeloom.dataset.flow.memes import Naming, Piece, naming_key
from memeloom.dataset.flow.outcomes import Outcomes
from memeloom.dataset.flow.plan import Plan
from memeloom.dataset.flow.similarity import BANDS, Signatures
from memeloom.dataset.flow.work import WorkFolder, block_name

_LAST_ORDER = 2**64 - 1


class FormerBlocks:
    """The blocks that earlier builds left in a work folder."""

    def __init__(self, work: WorkFolder, plan: Plan) -> None:
        self._work = work
        self._plan = plan

    def same(self, key: str) -> Head | None:
        """Return the head of a piece's own block if it can be used whole: undamaged, its templates named as before."""
        if not self._work.has_result(block_name(key)):
            return None
        try:
            head = read_head(self._work, key)
        except MemeloomError:
            return None
        return head if all(_still_named(head, self._plan.naming)) else None

    def like(self, piece: Piece) -> str | None:
        """Return the key of another block that begins or ends at the same meme; None without one."""
        by_first, by_last = self._by_boundary
        key = by_first.get(piece.first) or by_last.get(piece.last)
        # Its own block is about to be replaced, of which a machine may keep a copy.
        return None if key == piece.key else key

    @cached_property
    def _by_boundary(self) -> tuple[dict[str, str], dict[str, str]]:
        by_first, by_last = {}, {}
        for key in self._work.blocks():
            try:
                head = read_head(self._work, key)
            except MemeloomError:
                continue
            if head.digest == self._plan.digest:
                by_first[head.first] = by_last[head.last] = key
        return by_first, by_last


class Reused(NamedTuple):
    """Outcomes that a former block tells, and the lines of those dropped."""

    outcomes: Outcomes
    dropped: list[Line]


def reuse(work: WorkFolder, plan: Plan, key: str, checks: Array) -> Reused | None:
    """Return what the block `key` tells of the records with the hashes `checks`, (n, 2); None if it is damaged."""
    try:
        if not work.has_result(block_name(key)):
            return None
        head = read_head(work, key)
        with open_block(work.block(key)) as block:
            return _gathered(head, block, checks, np.array(_still_named(head, plan.naming), np.bool_))
    except (MemeloomError, OSError):
        return None


def _still_named(head: Head, naming: Naming) -> list[bool]:
    """Return True for each template of a block whose names and picture are as they were."""
    return [naming_key(naming, name) == was for name, was in head.naming.items()]


def _gathered(head: Head, block: Block, checks: Array, still_named: NDArray[np.bool_]) -> Reused:
    memes = block.memes()
    memes = memes[still_named[memes["template"]]]
    at, found = _same(checks, memes["check"])
    memes = memes[found]
    is_kept = memes["outcome"] >= 0
    rows = memes["outcome"][is_kept]
    memes["outcome"][is_kept] = np.arange(len(rows))
    logged = set(memes["log"][~is_kept].tolist())
    outcomes = Outcomes(
        at=at,
        memes=memes,
        templates=list(head.naming),
        drops=[(reason, source, detail) for reason, source, detail in head.drops],
        rows=block.between(0, block.rows)[rows],
        lines=block.lines_of(rows),
        words=Signatures(
            np.stack([block.keys(number)[rows] for number in range(BANDS)]),
            block.sketches()["bits"][rows],
            block.copies(0, block.rows)[rows],
        ),
        pictures=_pictures(block, rows) if head.pictures else None,
    )
    return Reused(outcomes, [line for line in block.dropped(0, _LAST_ORDER) if line[0] in logged])


def _same(checks: Array, former: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of equal hashes of 128 bits in both."""
    if not len(former):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    order = np.argsort(former[:, 0])
    place = np.minimum(np.searchsorted(former[order, 0], checks[:, 0]), len(former) - 1)
    found = order[place]
    at = np.flatnonzero((former[found] == checks).all(axis=1))
    return at, found[at]


def _pictures(block: Block, rows: Array) -> Pairs:
    return Pairs(np.stack([block.segments(number)[rows] for number in range(SEGMENTS)]), block.hashes()[rows])
