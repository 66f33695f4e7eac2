"""Find near-duplicates: similar words (or all but a letter) on one template, or pictures with nearly the same letters.

Rows that share a key (of a band or a segment) are compared. Of two near-duplicates the later one in the order is
dropped, unless the earlier one was, so none remain that share a key. Work is linear in the rows: in large groups each
row is compared with a limited number of neighbours.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.flow.block import SEGMENTS, Array, open_block
from memeloom.dataset.flow.filter import read_line
from memeloom.dataset.flow.misread import is_misread
from memeloom.dataset.flow.plan import read_plan
from memeloom.dataset.flow.similarity import (
    BANDS,
    SKETCH_ERROR,
    Words,
    differ_in_one_letter,
    normalise_all,
    similarity,
    sketch_similarity,
)
from memeloom.dataset.flow.work import WorkFolder, WorkPlace, open_work

Kind: TypeAlias = Literal["words", "pictures"]
KINDS: Final[dict[Kind, int]] = {"words": BANDS, "pictures": SEGMENTS}
# Orders of the dropped row, and of the row that it duplicates.
GONE: Final = np.dtype([("order", "<u8"), ("keeper", "<u8")])
# Rows per worker whose keys are in memory.
ROWS_AT_ONCE: Final = 500_000
# Neighbours compared per round; most duplicates are found in the first.
_ROUNDS = (4, 256)
# Pairs compared at once, and candidates in memory before their texts are read.
_CANDIDATES = 250_000
# Least similarity of sketches of captions that differ in one letter, unless they are very short.
_LETTER_APART = 0.6
# Least similarity of words if pictures are similar, and least from which letters are compared instead
# (`dataset.flow.misread`): errors of OCR destroy up to half of the shingles.
_SAME_WORDS = 0.8
_MISREAD = 0.5
_SKETCH_WORDS = 4
# Examples per part; showing at most as many in all makes them independent of the partition.
SAMPLES: Final = 200


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
        return f"{self.folder}/{self.kind}-{self.number:02}-{self.part:04}-of-{self.parts:04}"


class Members(NamedTuple):
    """Rows that share keys, sorted by key and order.

    Attributes:
        values: sketches, (n, 4); or hashes and sketches, (n, 8).
        block, row: index of the block, and of the row in it.
    """

    key: Words
    order: Words
    values: Words
    block: NDArray[np.uint32]
    row: NDArray[np.uint32]


def find_near(task: FindNear) -> str:
    """Write the rows to drop, as `GONE`, and some examples; return the name of the result."""
    settings = read_plan(task.work, task.plan).settings
    work = open_work(task.work)
    members = _members(task, work)
    if task.kind == "words":
        least = settings.near_text or 1.0
        is_candidate = _sketches_alike(members.values, min(least - SKETCH_ERROR, _LETTER_APART))
    else:
        least, is_candidate = _SAME_WORDS, _pictures_alike(members.values, settings.near_image or 0)
    gone, samples = _Pairs(work, task, members, least, is_candidate).find()
    work.write_result(task.name, gone.tobytes(), {"samples": samples})
    return task.name


_Comparison: TypeAlias = Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]]


def _sketches_alike(sketches: Words, least: float) -> _Comparison:
    return lambda one, other: sketch_similarity(sketches[one], sketches[other]) >= least


def _pictures_alike(values: Words, most: int) -> _Comparison:
    # Compare sketches before reading texts: thousands of different captions may be on one picture.
    words = _sketches_alike(np.ascontiguousarray(values[:, 4:]), _MISREAD - 2 * SKETCH_ERROR)
    hashes = np.ascontiguousarray(values[:, :4])

    def is_candidate(one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.bool_]:
        candidates = np.flatnonzero(np.bitwise_count(hashes[one] ^ hashes[other]).sum(axis=1, dtype=np.int64) <= most)
        near = np.zeros(len(one), np.bool_)
        near[candidates] = words(one[candidates], other[candidates])
        return near

    return is_candidate


class _Pairs:
    """Near-duplicates among members, by a fast comparison and then by their texts.

    is_candidate: fast comparison. least: least similarity of texts. Less is enough where one letter differs (by words),
    or errors of OCR and typing (by pictures).
    """

    def __init__(
        self, work: WorkFolder, task: FindNear, members: Members, least: float, is_candidate: _Comparison
    ) -> None:
        self._work = work
        self._blocks = task.blocks
        self._members = members
        self._least = least
        self._is_candidate = is_candidate
        self._nearly_equal = differ_in_one_letter if task.kind == "words" else is_misread
        self._keepers: dict[int, int] = {}
        self._samples: list[tuple[int, float, str, str]] = []
        self._last_sample = 2**64

    def find(self) -> tuple[Array, list[tuple[int, float, str, str]]]:
        """Return the rows to drop, sorted by order, and examples: order, similarity and both texts."""
        for window in _ROUNDS:
            self._compare(window)
        gone = np.empty(len(self._keepers), GONE)
        gone["order"] = self._members.order[list(self._keepers)]
        gone["keeper"] = self._members.order[list(self._keepers.values())]
        return np.unique(gone), sorted(self._samples)[:SAMPLES]

    def _compare(self, window: int) -> None:
        """Compare each remaining row with `window` neighbours of the same key."""
        left = np.delete(np.arange(len(self._members.key)), list(self._keepers))
        keys = self._members.key[left]
        waiting: list[_Candidates] = []
        held = 0
        for distance in range(1, min(window, len(left) - 1) + 1):
            same = np.flatnonzero(keys[distance:] == keys[:-distance])
            if not len(same):
                break
            for at in range(0, len(same), _CANDIDATES):
                one, other = left[same[at : at + _CANDIDATES]], left[same[at : at + _CANDIDATES] + distance]
                candidates = self._is_candidate(one, other)
                waiting.append(self._candidates(one[candidates], other[candidates]))
                held += len(waiting[-1][0])
                if held >= _CANDIDATES:
                    self._read(waiting)
                    held = 0
        self._read(waiting)

    def _candidates(self, ones: NDArray[np.intp], others: NDArray[np.intp]) -> "_Candidates":
        sketches = self._members.values[:, -_SKETCH_WORDS:]
        similar = sketch_similarity(sketches[ones], sketches[others]) >= self._least - SKETCH_ERROR
        return _Candidates(ones, others, similar)

    def _read(self, waiting: list["_Candidates"]) -> None:
        """Compare the texts of candidates, the nearest neighbours first."""
        texts = self._texts(np.unique(np.concatenate([_EMPTY, *(np.concatenate(each[:2]) for each in waiting)])))
        for candidates in waiting:
            for one, other, similar in zip(*(each.tolist() for each in candidates), strict=True):
                if one in self._keepers or other in self._keepers:
                    continue
                text, again = texts[one], texts[other]
                if (similar and similarity(text, again) >= self._least) or self._nearly_equal(text, again):
                    self._keepers[other] = one
                    self._sample(int(self._members.order[other]), text, again)
        waiting.clear()

    def _texts(self, wanted: NDArray[np.intp]) -> dict[int, str]:
        """Return the normalised texts of members by index."""
        texts: dict[int, str] = {}
        for block, numbers in _by_block(wanted, self._members.block):
            with open_block(self._work.block(self._blocks[block])) as opened:
                lines = opened.lines_of(self._members.row[numbers])
            texts.update(zip(numbers, normalise_all([read_line(line).boxes for line in lines]), strict=True))
        return texts

    def _sample(self, order: int, one: str, other: str) -> None:
        # Few are among the first: spare the others the similarity.
        if order > self._last_sample:
            return
        self._samples.append((order, round(similarity(one, other), 3), one.strip(), other.strip()))
        if len(self._samples) > 10 * SAMPLES:
            self._samples = sorted(self._samples)[:SAMPLES]
            self._last_sample = self._samples[-1][0]


class _Candidates(NamedTuple):
    """Indices of members to compare by their texts; `similar` is False where only nearly equal texts count."""

    ones: NDArray[np.intp]
    others: NDArray[np.intp]
    similar: NDArray[np.bool_]


_EMPTY = np.zeros(0, np.intp)


def _by_block(wanted: NDArray[np.intp], block: NDArray[np.uint32]) -> list[tuple[int, list[int]]]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, at in zip(wanted.tolist(), block[wanted].tolist(), strict=True):
        groups[at].append(number)
    return sorted(groups.items())


def _members(task: FindNear, work: WorkFolder) -> Members:
    """Return the rows that share a key with another row; equal captions once a key."""
    keys, blocks, rows = _keys(task, work)
    by_key = np.argsort(keys)
    same = keys[by_key[1:]] == keys[by_key[:-1]]
    shared = np.sort(by_key[_has_equal_neighbour(same)])
    keys, blocks, rows = keys[shared], blocks[shared], rows[shared]
    orders, values = _values(task, work, blocks, rows)
    at = np.lexsort((orders, keys))
    again = (keys[at[1:]] == keys[at[:-1]]) & (orders[at[1:]] == orders[at[:-1]])
    at = at[~np.concatenate((_FALSE[: len(at)], again))]
    return Members(keys[at], orders[at], values[at], blocks[at], rows[at])


_FALSE = np.zeros(1, np.bool_)


def _has_equal_neighbour(same: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of n members equal to a neighbour, from n - 1 comparisons."""
    return np.concatenate((same, _FALSE)) | np.concatenate((_FALSE, same)) if len(same) else same


def _keys(task: FindNear, work: WorkFolder) -> tuple[Words, NDArray[np.uint32], NDArray[np.uint32]]:
    """Return key, block and row of all in the range of the task."""
    found: list[tuple[Words, NDArray[np.uint32], NDArray[np.uint32]]] = []
    for number, name in enumerate(task.blocks):
        with open_block(work.block(name)) as block:
            keys = block.keys(task.number) if task.kind == "words" else block.segments(task.number)
        parts = ((keys >> np.uint64(32)) * np.uint64(task.parts)) >> np.uint64(32)
        rows = np.flatnonzero((parts == task.part) & (keys != 0))
        found.append((keys[rows], np.full(len(rows), number, np.uint32), rows.astype(np.uint32)))
    return (
        np.concatenate([keys for keys, _, _ in found]),
        np.concatenate([blocks for _, blocks, _ in found]),
        np.concatenate([rows for _, _, rows in found]),
    )


def _values(
    task: FindNear, work: WorkFolder, blocks: NDArray[np.uint32], rows: NDArray[np.uint32]
) -> tuple[Words, Words]:
    """Return orders, (n,), and values as in `Members` of rows sorted by block."""
    width = 4 if task.kind == "words" else 8
    orders, values = np.empty(len(rows), np.uint64), np.empty((len(rows), width), np.uint64)
    ends = np.searchsorted(blocks, np.arange(len(task.blocks) + 1))
    for number in np.unique(blocks).tolist():
        part = slice(ends[number], ends[number + 1])
        with open_block(work.block(task.blocks[number])) as block:
            sketches = block.sketches()
            orders[part] = sketches["order"][rows[part]]
            values[part, -4:] = sketches["bits"][rows[part]]
            if task.kind == "pictures":
                values[part, :4] = block.hashes()[rows[part]]
    return orders, values
