"""Counts as a few arrays and a JSON value: 10 bytes a context and 2 bytes a count."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.chain import Chain
from memeloom.train.ngram.contexts import LONGEST, MOST_WORDS, Context, Spelling
from memeloom.train.ngram.counts import Counts
from memeloom.train.ngram.levels import Level

CHAINS, POWERS = "chains.json", "powers.npy"
_KEYS, _SIZES, _SYMBOLS, _COUNTS, _LARGE = "keys.npy", "sizes.npy", "symbols.npy", "counts.npy", "large.npy"
FILES: Final = (CHAINS, POWERS, _KEYS, _SIZES, _SYMBOLS, _COUNTS, _LARGE)
# Stands for a count in `large.npy`.
_IS_LARGE: Final = 255


def files(counts: Counts) -> dict[str, Any]:
    """Return the content of the files `FILES`, by name."""
    levels = [level for chain in counts.chains for level in chain.levels]
    every = np.concatenate([level.counts for level in levels])
    large = every >= _IS_LARGE
    chains = [
        [
            {**context._asdict(), "values": len(level.keys), "entries": len(level.symbols),
             "discounts": [float(discount) for discount in level.discounts]}
            for context, level in zip(chain.contexts, chain.levels, strict=True)
        ]
        for chain in counts.chains
    ]  # fmt: skip
    return {
        CHAINS: chains,
        POWERS: counts.powers,
        _KEYS: np.concatenate([level.keys for level in levels]),
        _SIZES: np.concatenate([np.diff(level.first).astype(np.uint16) for level in levels]),
        _SYMBOLS: np.concatenate([level.symbols for level in levels]),
        _COUNTS: np.where(large, _IS_LARGE, every).astype(np.uint8),
        _LARGE: every[large].astype(np.uint32),
    }


def restored(content: Mapping[str, Any], spelling: Spelling) -> Counts:
    """Return the counts that `files` wrote.

    Raises:
        KeyError, TypeError, ValueError: a part is missing or wrong.
    """
    keys, sizes, symbols, counts = (content[name] for name in (_KEYS, _SIZES, _SYMBOLS, _COUNTS))
    large, powers = content[_LARGE], content[POWERS]
    _check(keys, sizes, symbols, counts, large, powers, spelling)
    chains, values, entries, larges = [], 0, 0, 0
    for described in content[CHAINS]:
        levels = []
        for level in described:
            own = slice(values, values := values + int(level["values"]))
            there = slice(entries, entries := entries + int(level["entries"]))
            found = counts[there]
            places = np.flatnonzero(found == _IS_LARGE)
            if len(places):
                found = found.astype(np.uint32)
                found[places] = large[larges : larges + len(places)]
                larges += len(places)
            first = np.concatenate([[0], np.cumsum(sizes[own], dtype=np.int64)]).astype(np.int32)
            levels.append(Level(keys[own], first, symbols[there], found, np.array(level["discounts"], np.float32)))
        contexts = [Context(**{name: level[name] for name in Context._fields}) for level in described]
        _check_contexts(contexts)
        chains.append(Chain(contexts, levels, spelling.characters))
    if (values, entries, larges) != (len(keys), len(symbols), len(large)):
        raise ValueError("its counts do not fit together")
    return Counts(chains, powers, spelling)


def _check(
    keys: NDArray[Any],
    sizes: NDArray[Any],
    symbols: NDArray[Any],
    counts: NDArray[Any],
    large: NDArray[Any],
    powers: NDArray[Any],
    spelling: Spelling,
) -> None:
    """Raise ValueError if an array is of another type or shape, or names a character that there is none of."""
    fits = (
        keys.dtype == np.uint64 and counts.dtype == np.uint8 and large.dtype == np.uint32
        and sizes.dtype == np.uint16 and symbols.dtype in (np.uint8, np.uint16) and powers.dtype == np.float32
        and all(array.ndim == 1 for array in (keys, sizes, symbols, counts, large)) and powers.ndim == 2
        and len(keys) == len(sizes) and len(symbols) == len(counts)
    )  # fmt: skip
    if not fits or not np.isfinite(powers).all():
        raise ValueError("its counts are not what they should be")
    if int(symbols.max(initial=0)) >= spelling.characters or int(sizes.min(initial=1)) < 1:
        raise ValueError("its counts do not fit its alphabet")


def _check_contexts(contexts: Sequence[Context]) -> None:
    """Raise ValueError if there is no such context, or the first of a chain is not the empty one."""
    for context in contexts:
        if not (0 <= context.characters <= LONGEST and 0 <= context.suffix <= LONGEST):
            raise ValueError("its contexts are too long")
        if not 0 <= context.words <= MOST_WORDS:
            raise ValueError("its contexts have too many words")
    if not contexts or contexts[0] != Context():
        raise ValueError("its first context is not the empty one")
