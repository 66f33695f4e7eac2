"""Count what follows each context, and turn the counts into Kneser-Ney estimates.

Interpolated and modified (Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1999):
a context takes a discount off each count, and its more general context says how that is spread. The counts of a general
context are the number of different specific ones, not of occurrences (Kneser and Ney, 1995). Contexts need not be the
last characters; each has to be a function of the next more specific one.

Captions may have weights. They scale what is counted, after discounting: the discounts are those of whole counts, and a
context's share of a character grows with the mean weight of the captions in which it follows.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import CLEAR, Context, Contexts, Hashes
from memeloom.train.ngram.text import Text

_SYMBOL: Final = ~CLEAR
# Counts of at least this have one discount.
_LAST_DISCOUNT: Final = 3
# Characters that are hashed at once.
_BLOCK: Final = 1 << 20


class Level(NamedTuple):
    """What follows the values of one context.

    keys: hashes of the values, ascending, uint64 (values,). sizes: number of characters that follow each, (values,).
    symbols: these characters, from 0, (entries,). shares: the probability of each beyond that of the more general
    context, float32 (entries,). left: what each value leaves to the more general context, float32 (values,).
    """

    keys: Hashes
    sizes: NDArray[np.int64]
    symbols: NDArray[np.unsignedinteger[Any]]
    shares: NDArray[np.float32]
    left: NDArray[np.float32]


def count_chain(
    text: Text,
    chain: Sequence[Context],
    *,
    kept_singles: int | None = None,
    importance: NDArray[np.float32] | None = None,
) -> list[Level]:
    """Count the characters of `text` by the contexts of a chain, general to specific.

    kept_singles: number of general contexts whose values are all kept; of the others, values that occur once are
        forgotten. None keeps all.
    importance: weight of each caption, (captions,); None is 1.
    """
    levels: list[Level] = []
    columns = [Contexts([[context]]) for context in chain]
    positions = np.arange(len(text), dtype=np.int32)
    weights = np.ones(len(text), np.uint32)
    single = np.ones(len(text), np.bool_)
    important = None if importance is None else importance[text.caption]
    own = _hashed(text, columns[-1], positions)
    for number in range(len(chain) - 1, -1, -1):
        general = _hashed(text, columns[number - 1], positions) if number else np.zeros_like(own)
        # A stretch that ends at the start of its caption is the same for several contexts: only the most general of
        # them counts it, and it counts occurrences.
        counted = np.flatnonzero(own != general)
        symbols = text.characters[positions[counted]] - np.uint16(1)
        keys, following, counts, kept, mean = _counted(
            own[counted], symbols, weights[counted], None if important is None else important[counted]
        )
        single_entries = single[counted[kept]] & (counts == 1)
        forget = single_entries if kept_singles is not None and number >= kept_singles else None
        levels.append(_level(keys, following, counts, forget, mean))
        same = np.flatnonzero(own == general)
        single = np.concatenate([single_entries, single[same]])
        weights = np.concatenate([np.ones(len(kept), np.uint32), weights[same]])
        if important is not None and mean is not None:
            important = np.concatenate([mean, important[same]])
        active = np.concatenate([counted[kept], same])
        own, positions = general[active], positions[active]
    return levels[::-1]


def _hashed(text: Text, context: Contexts, positions: NDArray[np.int32]) -> Hashes:
    """Return the hashes of a context at many positions, in blocks, which takes less memory."""
    hashed = np.empty(len(positions), np.uint64)
    for first in range(0, len(positions), _BLOCK):
        block = slice(first, first + _BLOCK)
        hashed[block] = context.hashes(text.at(positions[block]))[0][0]
    return hashed


def _counted(
    hashed: Hashes,
    symbols: NDArray[np.uint16],
    weights: NDArray[np.uint32],
    important: NDArray[np.float32] | None,
) -> tuple[Hashes, NDArray[np.uint16], NDArray[np.uint32], NDArray[np.int64], NDArray[np.float32] | None]:
    """Return each pair of context and character once, sorted: hash, character, count, and one place where it is.

    The last is the mean of `important` in each, None if that is None.
    """
    keys = hashed | symbols.astype(np.uint64)
    order = np.argsort(keys)
    keys = keys[order]
    new = np.flatnonzero(_differ(keys))
    counts = np.add.reduceat(weights[order], new) if len(new) else np.zeros(0, np.uint32)
    mean: NDArray[np.float32] | None = None
    if important is not None:
        total = np.add.reduceat((important * weights)[order], new) if len(new) else np.zeros(0)
        mean = (total / counts).astype(np.float32)
    keys, kept = keys[new], order[new]
    return keys & CLEAR, (keys & _SYMBOL).astype(np.uint16), counts, kept, mean


def _level(
    keys: Hashes,
    symbols: NDArray[np.uint16],
    counts: NDArray[np.uint32],
    forget: NDArray[np.bool_] | None,
    mean: NDArray[np.float32] | None,
) -> Level:
    """Return a level of sorted pairs.

    forget: True for those of which a context with no other is left out. mean: weight of each pair; None is 1.
    """
    begins = np.flatnonzero(_differ(keys))
    sizes = np.diff(begins, append=len(keys))
    off = discounts(counts)[np.minimum(counts, _LAST_DISCOUNT)]
    amounts: NDArray[Any] = counts
    if mean is not None:
        amounts, off = counts * mean, off * mean
    if forget is not None:
        kept = (sizes > 1) | ~forget[begins]
        pairs = np.repeat(kept, sizes)
        keys, symbols, amounts, off = keys[pairs], symbols[pairs], amounts[pairs], off[pairs]
        sizes = sizes[kept]
        begins = np.cumsum(sizes) - sizes
    if not len(begins):
        return Level(keys, sizes, symbols, off, off)
    total = np.add.reduceat(amounts, begins, dtype=np.float32)
    shares = (amounts - off) / np.repeat(total, sizes)
    left = np.add.reduceat(off, begins) / total
    return Level(keys[begins], sizes, symbols, shares.astype(np.float32), left.astype(np.float32))


def _differ(keys: Hashes) -> NDArray[np.bool_]:
    """Return True for each key that differs from the one before it, and for the first."""
    differ = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=differ[1:])
    return differ


def discounts(counts: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.float32]:
    """Return what is taken off counts of 0, 1, 2 and more (Chen and Goodman, 1999), from how often small ones occur."""
    often = np.bincount(np.minimum(counts, _LAST_DISCOUNT + 2).astype(np.int64), minlength=_LAST_DISCOUNT + 2)
    taken = np.zeros(_LAST_DISCOUNT + 1, np.float32)
    share = often[1] / (often[1] + 2 * often[2]) if often[1] else 0.5
    for count in range(1, _LAST_DISCOUNT + 1):
        more = often[count + 1] / often[count] if often[count] else 0.5
        taken[count] = min(max(count - (count + 1) * share * more, 0.05), count - 0.05)
    return taken
