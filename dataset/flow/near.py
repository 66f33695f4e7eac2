"""Find near-duplicates: similar words (or all but a letter) on one template, or pictures with nearly the same letters.

Rows that share a key (of a band or a segment) are compared by `dataset.flow.pairs`. What is found among the rows of one
key depends on them alone, so a later build searches again only the keys of rows that are new or gone.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.flow.block import SEGMENTS, Array, Block, open_block, power_of_two
from memeloom.dataset.flow.changes import read_changes
from memeloom.dataset.flow.filter import near_settings
from memeloom.dataset.flow.pairs import GONE, SKETCH_WORDS, Kind, Members, Pairs, comparison
from memeloom.dataset.flow.plan import Plan, read_plan
from memeloom.dataset.flow.similarity import BANDS, Words
from memeloom.dataset.flow.work import WorkFolder, WorkPlace, open_work

KINDS: Final[dict[Kind, int]] = {"words": BANDS, "pictures": SEGMENTS}
# Rows per worker whose keys are in memory.
ROWS_AT_ONCE: Final = 500_000


# The table that tells most other keys from n given ones has 64 n places, 16 MB at most.
_SPARE_BITS, _MOST_BITS = 6, 24


class FindNear(NamedTuple):
    """Rows of `blocks` that share a key of band or segment `number`, for keys in range `part` of `parts`."""

    work: WorkPlace
    plan: str
    blocks: Sequence[str]
    folder: str
    kind: Kind
    number: int
    part: int
    parts: int

    @property
    def name(self) -> str:
        """Name of the result in the work folder."""
        return self.name_in(self.folder)

    def name_in(self, folder: str) -> str:
        """Name of such a result in another folder of results."""
        return f"near/{folder}/{self.kind}-{self.number:02}-{self.part:04}-of-{self.parts:04}"


def plan_near(
    work: WorkFolder, plan: Plan, blocks: Sequence[str], rows: int, content: str, *, pictures: bool
) -> list[FindNear]:
    """Return the searches that are enabled.

    Args:
        work: the work folder.
        plan: the plan of the build.
        blocks: names of the blocks.
        rows: number of captions in them.
        content: names the folder of the results.
        pictures: True if any caption has a picture.
    """
    by_words, by_pictures = near_settings(plan.settings)
    parts = power_of_two(rows, ROWS_AT_ONCE)
    kinds: dict[Kind, bool] = {"words": by_words, "pictures": by_pictures and pictures}
    return [
        FindNear(work.place, plan.whole, blocks, content, kind, number, part, parts)
        for kind, enabled in kinds.items()
        if enabled
        for number in range(KINDS[kind])
        for part in range(parts)
    ]


def find_near(task: FindNear) -> str:
    """Write the rows to drop, as `GONE`, sorted; return the name of the result."""
    settings = read_plan(task.work, task.plan).settings
    work = open_work(task.work)
    found, changed = _unaffected(task, work)
    members = _members(task, work, changed)
    pairs = Pairs(work, task.blocks, members, comparison(task.kind, settings, members))
    gone = np.unique(np.concatenate([found, pairs.find()]))
    work.write_result(task.name, gone.tobytes(), {})
    return task.name


def _unaffected(task: FindNear, work: WorkFolder) -> tuple[Array, Words | None]:
    """Return what a former build found, but for the keys of changed rows; and those keys, or None if all are needed."""
    none = np.zeros(0, GONE)
    try:
        changes = read_changes(work, task.folder, task.kind, task.number)
        if changes is None or not work.has_result(former := task.name_in(changes.folder)):
            return none, None
    except (MemeloomError, OSError):
        return none, None
    found = np.fromfile(work.rows(former), GONE)
    return np.delete(found, _Among(changes.keys).rows(found["key"])), changes.keys


class _Among:
    """Tells which keys are among `some`, which ascend: much faster than `isin`, as few are."""

    def __init__(self, some: Words) -> None:
        self._some = some
        bits = min(len(some).bit_length() + _SPARE_BITS, _MOST_BITS)
        self._shift = np.uint64(64 - bits)
        self._present = np.zeros(1 << bits, np.bool_)
        self._present[some >> self._shift] = True

    def rows(self, keys: Words) -> NDArray[np.intp]:
        """Return the rows of those keys, ascending."""
        at = np.flatnonzero(self._present[keys >> self._shift])
        if not len(at):
            return at
        found = self._some[np.minimum(np.searchsorted(self._some, keys[at]), len(self._some) - 1)]
        rows: NDArray[np.intp] = at[found == keys[at]]
        return rows


def _members(task: FindNear, work: WorkFolder, changed: Words | None) -> Members:
    """Return the rows that share a key with another row, of `changed` only if given.

    Of equal captions, one a key and picture: which pictures a caption has must not depend on the order of the rows.
    """
    keys, blocks, rows = _keys(task, work, changed)
    by_key = np.argsort(keys)
    same = keys[by_key[1:]] == keys[by_key[:-1]]
    shared = np.sort(by_key[_has_equal_neighbour(same)])
    keys, blocks, rows = keys[shared], blocks[shared], rows[shared]
    orders, values = _values(task, work, blocks, rows)
    facts = (keys, orders, *(values[:, :-SKETCH_WORDS].T))
    at = np.lexsort(facts[::-1])
    again = np.logical_and.reduce([each[at[1:]] == each[at[:-1]] for each in facts])
    at = at[~np.concatenate((_FALSE[: len(at)], again))]
    return Members(keys[at], orders[at], values[at], blocks[at], rows[at])


_FALSE = np.zeros(1, np.bool_)


def _has_equal_neighbour(same: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of n members equal to a neighbour, from n - 1 comparisons."""
    return np.concatenate((same, _FALSE)) | np.concatenate((_FALSE, same)) if len(same) else same


def _keys_of(block: Block, task: FindNear) -> Words:
    return block.keys(task.number) if task.kind == "words" else block.segments(task.number)


def _keys(
    task: FindNear, work: WorkFolder, changed: Words | None
) -> tuple[Words, NDArray[np.uint32], NDArray[np.uint32]]:
    """Return key, block and row of all in the range of the task, of the keys in `changed` if given."""
    found: list[tuple[Words, NDArray[np.uint32], NDArray[np.uint32]]] = []
    among = None if changed is None else _Among(changed)
    for number, name in enumerate(task.blocks):
        with open_block(work.block(name)) as block:
            keys = _keys_of(block, task)
        rows = np.arange(len(keys)) if among is None else among.rows(keys)
        keys = keys[rows]
        parts = ((keys >> np.uint64(32)) * np.uint64(task.parts)) >> np.uint64(32)
        wanted = np.flatnonzero((parts == task.part) & (keys != 0))
        found.append((keys[wanted], np.full(len(wanted), number, np.uint32), rows[wanted].astype(np.uint32)))
    return (
        np.concatenate([keys for keys, _, _ in found]),
        np.concatenate([blocks for _, blocks, _ in found]),
        np.concatenate([rows for _, _, rows in found]),
    )


def _values(
    task: FindNear, work: WorkFolder, blocks: NDArray[np.uint32], rows: NDArray[np.uint32]
) -> tuple[Words, Words]:
    """Return orders, (n,), and values as in `Members` of rows sorted by block."""
    width = SKETCH_WORDS if task.kind == "words" else 4 + SKETCH_WORDS
    orders, values = np.empty(len(rows), np.uint64), np.empty((len(rows), width), np.uint64)
    ends = np.searchsorted(blocks, np.arange(len(task.blocks) + 1))
    for number in np.unique(blocks).tolist():
        part = slice(ends[number], ends[number + 1])
        with open_block(work.block(task.blocks[number])) as block:
            sketches = block.sketches()
            orders[part] = sketches["order"][rows[part]]
            values[part, -SKETCH_WORDS:] = sketches["bits"][rows[part]]
            if task.kind == "pictures":
                values[part, :4] = block.hashes()[rows[part]]
    return orders, values
