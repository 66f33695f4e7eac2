"""A permutation that can be computed at any place, in no memory: the order of a training.

A Feistel network over pairs of half-words, walked until it lands inside (Black and Rogaway, "Ciphers with
Arbitrary Finite Domains", 2002): at any place it is known what stands there, so a training continues anywhere.
"""

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 4
_MIX = 0x9E3779B97F4A7C15
_SPREAD = np.uint64(0xBF58476D1CE4E5B9)
_TURNS = tuple(np.uint64(turn * _MIX % 2**64) for turn in range(_ROUNDS))


def shuffled(places: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """What stands at `places` of an endless row of passes over 0 … `count` - 1, each in an order of its own."""
    passes = (places // count).astype(np.uint64)
    keys = _mixed(passes * np.uint64(_MIX) + np.uint64(seed % 2**64))
    return _permuted((places % count).astype(np.uint64), count, keys)


def _permuted(places: NDArray[np.uint64], count: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    half = np.uint64(max((count - 1).bit_length() + 1, 2) // 2)
    found = _encrypted(places, half, keys)
    while (outside := np.flatnonzero(found >= count)).size:
        found[outside] = _encrypted(found[outside], half, keys[outside])
    return found.astype(np.int64)


def _encrypted(values: NDArray[np.uint64], half: np.uint64, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 0 … 2^(2 half) - 1."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for turn in _TURNS:
        left, right = right, left ^ (_mixed(right + keys + turn) & mask)
    encrypted: NDArray[np.uint64] = (left << half) | right
    return encrypted


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of each value depends on all of its bits."""
    values = (values ^ (values >> np.uint64(30))) * _SPREAD
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
