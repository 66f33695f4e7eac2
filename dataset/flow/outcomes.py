"""What became of the memes of a piece, in parts that are merged into a block.

A block is the same whichever parts its outcomes came in: filtered now, or taken from a former block by
`dataset.flow.reuse`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from memeloom.dataset.flow.block import SEGMENTS, Array, Pairs
from memeloom.dataset.flow.memes import Naming
from memeloom.dataset.flow.similarity import Signatures

# Reason, source and matched entry of a list.
DropKind: TypeAlias = tuple[str, str, str]


class Outcomes(NamedTuple):
    """Outcomes of some memes of a piece.

    Attributes:
        at: places of the m memes in the piece, (m,).
        memes: a `MEME` each; its numbers refer to the other attributes.
        templates: ids of the templates that the memes name.
        drops: kinds of drops.
        rows: of the n captions kept, in any order; their `row`, `start` and `length` are not used.
        lines: the captions, (n,).
        words: signatures of the captions.
        pictures: segments and hashes of their pictures, or None if no caption has any.
    """

    at: NDArray[np.intp]
    memes: Array
    templates: Sequence[str]
    drops: Sequence[DropKind]
    rows: Array
    lines: list[bytes]
    words: Signatures
    pictures: Pairs | None


class Merged(NamedTuple):
    """Outcomes of all memes of a piece, in their order; rows complete, sorted by split, order and hash of their line.

    Attributes are those of `Outcomes`, without the places.
    """

    memes: Array
    templates: list[str]
    drops: list[DropKind]
    rows: Array
    lines: list[bytes]
    words: Signatures
    pictures: Pairs | None

    def counts(self) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
        """Return the number of drops by reason and source, and by reason and matched entry."""
        outcomes = self.memes["outcome"]
        numbers = np.bincount(~outcomes[outcomes < 0], minlength=len(self.drops)).tolist()
        sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
        details: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (reason, source, detail), number in zip(self.drops, numbers, strict=True):
            sources[reason][source] += number
            if detail:
                details[reason][detail] += number
        return dict(sources), dict(details)

    def templates_of(self, naming: Naming) -> dict[int, list[str]]:
        """Return id, name and slug of each template by its hash; if `naming` lacks it the greatest of its memes."""
        found: dict[int, list[str]] = {}
        for number, line in self.lines_by("template").items():
            lines = [line]
            if line[2] not in naming:
                own = np.flatnonzero(self.rows["template"] == number).tolist()
                lines = [orjson.loads(self.lines[at]) for at in own]
            found[number] = max(each[2:5] for each in lines)
        return found

    def lines_by(self, field: str) -> dict[int, list[Any]]:
        """Return the values in the line of the last caption of each hash in `field`, by hash."""
        hashes, at = np.unique(self.rows[field][::-1], return_index=True)
        last = (len(self.lines) - 1 - at).tolist()
        return {each: orjson.loads(self.lines[number]) for each, number in zip(hashes.tolist(), last, strict=True)}


def merge(parts: Sequence[Outcomes]) -> Merged:
    """Return the outcomes of all memes; `parts` hold each meme once."""
    templates, template = _renumbered([part.templates for part in parts], [part.memes["template"] for part in parts])
    is_dropped = [part.memes["outcome"] < 0 for part in parts]
    drops, drop = _renumbered(
        [part.drops for part in parts],
        [~part.memes["outcome"][which] for part, which in zip(parts, is_dropped, strict=True)],
    )
    at = np.concatenate([part.at for part in parts])
    memes = np.concatenate([part.memes for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    dropped = np.concatenate(is_dropped)
    begins = np.repeat(np.cumsum([0, *(len(part.rows) for part in parts[:-1])]), [len(part.at) for part in parts])
    row = memes["outcome"][~dropped] + begins[~dropped]
    # Equal captions by their lines, which differ: not by their places, which depend on how the catalog was filled.
    order = np.lexsort((rows["check"], rows["low"], rows["order"], rows["split"]))
    number = np.empty(len(rows), np.intp)
    number[order] = np.arange(len(rows))
    memes["template"] = template
    memes["outcome"][dropped] = ~drop
    memes["outcome"][~dropped] = number[row]
    together = [line for part in parts for line in part.lines]
    lines = [together[each] for each in order.tolist()]
    return Merged(
        memes[np.argsort(at)], templates, drops, _numbered(rows[order], lines), lines,
        _ordered_words([part.words for part in parts], order), _ordered_pictures(parts, order),
    )  # fmt: skip


def _renumbered(values: Sequence[Sequence[Any]], numbers: Sequence[Array]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the values that `numbers` name in each part, sorted, each once, and their new numbers in one array."""
    named = [np.unique(each, return_inverse=True) for each in numbers]
    used = [[each[number] for number in own.tolist()] for each, (own, _) in zip(values, named, strict=True)]
    together = sorted({value for each in used for value in each})
    place = {value: number for number, value in enumerate(together)}
    new = [
        np.array([place[value] for value in each], np.int64)[again]
        for each, (_, again) in zip(used, named, strict=True)
    ]
    return together, np.concatenate(new)


def _numbered(rows: Array, lines: Sequence[bytes]) -> Array:
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    rows["row"], rows["length"], rows["start"] = np.arange(len(rows)), lengths, np.cumsum(lengths) - lengths
    return rows


def _ordered_words(parts: Sequence[Signatures], order: NDArray[np.intp]) -> Signatures:
    return Signatures(
        np.concatenate([part.keys for part in parts], axis=1)[:, order],
        np.concatenate([part.sketches for part in parts])[order],
        np.concatenate([part.copies for part in parts])[order],
    )


def _ordered_pictures(parts: Sequence[Outcomes], order: NDArray[np.intp]) -> Pairs | None:
    """Return those of all captions; None if none has a picture, as if all had been filtered now."""
    if all(part.pictures is None for part in parts):
        return None
    pairs = [part.pictures or _no_pictures(len(part.rows)) for part in parts]
    keys = np.concatenate([each.keys for each in pairs], axis=1)[:, order]
    return Pairs(keys, np.concatenate([each.values for each in pairs])[order]) if keys.any() else None


def _no_pictures(rows: int) -> Pairs:
    """Return the segments and hashes of captions without a picture."""
    return Pairs(np.zeros((SEGMENTS, rows), np.uint64), np.zeros((rows, 4), np.uint64))
