"""Look up the captions that dropped duplicates resemble."""

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from memeloom.dataset.flow.block import Array
from memeloom.dataset.flow.choose import CHOSEN, REASONS
from memeloom.dataset.flow.filter import read_line
from memeloom.dataset.flow.work import WorkFolder
from memeloom.dataset.flow.write import lines_of
from memeloom.dataset.schema import SPLITS
from memeloom.dataset.steps.caption import Caption

_DUPLICATE = REASONS.index("duplicate")


class Keepers:
    """Finds captions by their order in `chosen`, results of `dataset.flow.leaks` with all that was dropped."""

    def __init__(self, work: WorkFolder, blocks: Sequence[str], chosen: Sequence[str]) -> None:
        self._work = work
        self._blocks = blocks
        self._chosen = chosen
        self._part = cache(self._opened)

    def find(self, orders: Array) -> dict[int, Caption]:
        """Return the caption of each order; of equal captions the one that was kept."""
        wanted = np.unique(orders).tolist()
        rows = np.array([self._row(order) for order in wanted], CHOSEN)
        lines = lines_of(self._work, self._blocks, rows)
        return dict(zip(wanted, map(read_line, lines), strict=True))

    def _row(self, order: int) -> Any:
        rows, bounds = self._part(order * len(self._chosen) >> 64)
        found = []
        for begin, end in bounds:
            at = bisect_left(rows["order"], order, begin, end)
            while at < end and rows["order"][at] == order:
                found.append(rows[at])
                at += 1
        return min(found, key=lambda row: (row["dropped"] == _DUPLICATE, row["dropped"]))

    def _opened(self, part: int) -> tuple[Array, list[tuple[int, int]]]:
        """Return the rows of a result, and begin and end of each split: rows are sorted by split and order."""
        rows = np.memmap(self._work.rows(self._chosen[part]), CHOSEN, "r")
        ends = [bisect_left(rows["split"], split) for split in range(len(SPLITS) + 1)]
        return rows, list(itertools.pairwise(ends))
