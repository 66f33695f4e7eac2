"""The keys of captions that are new or gone since a former build: searches look only at what these affect."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.flow.block import SEGMENTS, Block, content_of, open_block, read_head
from memeloom.dataset.flow.similarity import BANDS, Words, fold
from memeloom.dataset.flow.work import WorkFolder, WorkPlace, block_name, open_work

# With more changed rows all is searched: few others would be skipped, and their keys, 232 bytes a row, are in memory.
_MOST_SHARE: Final = 0.03
_MOST: Final = 100_000
_FILE = "searched.json"


class FindChanges(NamedTuple):
    """Compare `blocks`, with `rows` captions, with those of the former build; `folder` names the folder of results."""

    work: WorkPlace
    digest: str
    blocks: Sequence[str]
    rows: int
    folder: str

    @property
    def name(self) -> str:
        """Name of the result in the work folder."""
        return _name(self.folder)


class Changes(NamedTuple):
    """What changed since a former build.

    Attributes:
        folder: name of its results.
        keys: of new and gone rows in one search, ascending.
    """

    folder: str
    keys: Words


def note_searched(work: WorkFolder, digest: str, blocks: Sequence[str], folder: str) -> None:
    """Note that all searches among `blocks` are complete.

    digest: of the plan. folder: of their results, the `content_of` the blocks.
    """
    work.write(_FILE, {"digest": digest, "blocks": blocks, "folder": folder})


def find_changes(task: FindChanges) -> str:
    """Write the keys of what changed since the former build, unless too much did; return the name of the result."""
    work = open_work(task.work)
    noted = work.read(_FILE)
    keys = None
    if noted is not None and noted["digest"] == task.digest and noted["folder"] != task.folder:
        with suppress(MemeloomError, OSError):
            # A block keeps its name when its templates are renamed or merged, and may be another one by now.
            if content_of((name, read_head(work, name)) for name in noted["blocks"]) == noted["folder"]:
                most = min(int(_MOST_SHARE * task.rows), _MOST)
                keys = _Changed(work, most).compare(noted["blocks"], task.blocks)
    if keys is None:
        work.write_result(task.name, b"", {"former": None})
        return task.name
    content, ends = bytearray(), {}
    for name in _SEARCHES:
        # The chunks of one search at a time, and no longer than needed.
        content += np.unique(np.concatenate([_NONE, *keys.pop(name, ())])).tobytes()
        ends[name] = len(content) // 8
    work.write_result(task.name, content, {"former": noted["folder"], "ends": ends})
    return task.name


def read_changes(work: WorkFolder, folder: str, kind: str, number: int) -> Changes | None:
    """Return the changes for a search by words or pictures in band or segment `number`; None if all is searched."""
    found = work.metadata(_name(folder))
    if found["former"] is None:
        return None
    begins = dict(zip(found["ends"], (0, *found["ends"].values()), strict=False))
    name = _search(kind, number)
    begin, end = begins[name], found["ends"][name]
    return Changes(found["former"], np.fromfile(work.rows(_name(folder)), "<u8", end - begin, offset=8 * begin))


def _search(kind: str, number: int) -> str:
    return f"{kind} {number}"


_SEARCHES: Final = (*(_search("words", n) for n in range(BANDS)), *(_search("pictures", n) for n in range(SEGMENTS)))
_NONE: Final = np.zeros(0, np.uint64)


def _name(folder: str) -> str:
    return f"near/{folder}/changes"


class _Changed:
    """Collects the keys of changed rows, of `most` at most."""

    def __init__(self, work: WorkFolder, most: int) -> None:
        self._work = work
        self._left = most
        self._keys: defaultdict[str, list[Words]] = defaultdict(list)

    def compare(self, former: Sequence[str], blocks: Sequence[str]) -> dict[str, list[Words]] | None:
        """Return the keys by search, unsorted; None if too many rows changed, or former blocks are missing."""
        current, known = set(blocks), set(former)
        gone = dict.fromkeys(name for name in former if name not in current)
        if not all(self._work.has_result(block_name(name)) for name in gone):
            return None
        by_boundary: dict[str, str] = {}
        for name in gone:
            head = read_head(self._work, name)
            by_boundary[head.first] = by_boundary[head.last] = name
        for name in [name for name in blocks if name not in known]:
            head = read_head(self._work, name)
            before = by_boundary.get(head.first) or by_boundary.get(head.last, "")
            now, then = self._rows(name), _NONE
            if before in gone:
                del gone[before]
                then = self._rows(before)
                self._add(before, np.flatnonzero(~np.isin(then, now)))
            self._add(name, np.flatnonzero(~np.isin(now, then)))
            if self._left < 0:
                return None
        for name in gone:
            self._add(name, np.arange(len(self._rows(name))))
        return self._keys if self._left >= 0 else None

    def _add(self, name: str, rows: NDArray[np.intp]) -> None:
        self._left -= len(rows)
        if not len(rows) or self._left < 0:
            return
        with open_block(self._work.block(name)) as block:
            for number in range(BANDS):
                self._keys[_search("words", number)].append(block.keys(number)[rows])
            for number in range(SEGMENTS):
                if len(keys := block.segments(number)):
                    self._keys[_search("pictures", number)].append(keys[rows])

    def _rows(self, name: str) -> Words:
        """Return a hash of each row of a block: of all that searches look at."""
        with open_block(self._work.block(name)) as block:
            return _hashes(block)


def _hashes(block: Block) -> Words:
    rows, pictures = block.between(0, block.rows), block.hashes()
    return fold((rows["order"], rows["low"], rows["check"], *(pictures.T if len(pictures) else ())))
