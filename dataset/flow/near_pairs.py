"""Examples of near-duplicates, for the card of a dataset."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from memeloom.dataset.flow.block import PREFIX_BITS, Array, open_block
from memeloom.dataset.flow.filter import read_line
from memeloom.dataset.flow.pairs import GONE
from memeloom.dataset.flow.similarity import normalise, similarity
from memeloom.dataset.flow.work import WorkFolder, WorkPlace, open_work
from memeloom.dataset.schema import SPLITS

_PAIRS: Final = 200


class FindPairs(NamedTuple):
    """The first near-duplicates in the results `near`; `folder` names the folder of results."""

    work: WorkPlace
    blocks: Sequence[str]
    near: Sequence[str]
    folder: str

    @property
    def name(self) -> str:
        """Name of the result in the work folder."""
        return f"near/{self.folder}/pairs"


def find_pairs(task: FindPairs) -> str:
    """Write similarity and both texts of the first 200 near-duplicates in dataset order; return the name."""
    work = open_work(task.work)
    pairs = np.zeros(0, GONE)[["order", "keeper"]]
    for name in task.near:
        found = np.concatenate([pairs, np.fromfile(work.rows(name), GONE)[["order", "keeper"]]])
        last = np.unique(found["order"])[:_PAIRS][-1:]
        pairs = np.unique(found[found["order"] <= last])[:_PAIRS] if len(last) else found
    texts = _texts(work, task.blocks, np.concatenate([pairs["order"], pairs["keeper"]]))
    samples = [(round(similarity(texts[one], texts[other]), 3), texts[one].strip(), texts[other].strip())
               for other, one in pairs.tolist()]  # fmt: skip
    work.write_result(task.name, b"", {"pairs": samples})
    return task.name


def _texts(work: WorkFolder, blocks: Sequence[str], orders: Array) -> dict[int, str]:
    """Return the normalised text of each order; captions of equal order have equal ones."""
    texts: dict[int, str] = {}
    last = int(orders.max()) >> 64 - PREFIX_BITS if len(orders) else -1
    for name in blocks if len(orders) else ():
        with open_block(work.block(name)) as block:
            for split in range(len(SPLITS)):
                begin, end = block.range_of(split, 0, last + 1)
                found = block.between(begin, end)["order"]
                at = np.flatnonzero(np.isin(found, orders))
                for order, line in zip(found[at].tolist(), block.lines_of(at + begin) if len(at) else (), strict=True):
                    texts[order] = normalise(read_line(line).boxes)
    return texts
