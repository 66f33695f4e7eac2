"""Several chains as one distribution: the product of their estimates to powers that depend on what they know.

After Hinton, "Training Products of Experts by Minimizing Contrastive Divergence", 2002, and the gated mixing of
Mahoney, "Adaptive Weighing of Context Models for Lossless Data Compression", 2005. A product is sharper than an average
where the chains agree. Its powers are fitted by gradient descent on the likelihood.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.table import Estimates, Floats

_BATCH: Final = 4096
_RATE, _DECAY, _DECAY_SQUARES = 0.05, 0.9, 0.99
# Weight decay towards the initial powers.
_PULL: Final = 1e-4


def gate_size(depths: Sequence[int]) -> int:
    """Return how many numbers `gate` gives. depths: number of contexts of each chain."""
    return depths[0] * depths[1]


def gate(estimates: Estimates, depths: Sequence[int]) -> NDArray[np.int64]:
    """Return a number for each position, by what the first two chains know there."""
    numbers: NDArray[np.int64] = estimates.depth[0] * depths[1] + estimates.depth[1]
    return numbers


def mixed(estimates: Estimates, powers: Floats, numbers: NDArray[np.int64]) -> Floats:
    """Return log-probabilities, (positions, characters).

    powers: of each chain by number of the gate, (numbers, chains). numbers: of each position.
    """
    total: Floats = np.einsum("nc,cnv->nv", powers[numbers], np.log(estimates.probabilities))
    total -= total.max(axis=1, keepdims=True)
    total -= np.log(np.exp(total).sum(axis=1, keepdims=True))
    return total


def fit_powers(
    logs: Floats, gates: NDArray[np.int64], symbols: NDArray[np.int64], numbers: int, seed: int, steps: int = 400
) -> Floats:
    """Return the powers, 0 or more, (numbers, chains), under which characters are likeliest, by Adam.

    logs: of the chains' estimates, (chains, positions, characters). gates: number of each position. symbols: the
    character at each, from 0.
    """
    chains, positions, _ = logs.shape
    begin = np.full((numbers, chains), 1.2 / chains, np.float32)
    powers, mean, square = begin.copy(), np.zeros_like(begin), np.zeros_like(begin)
    rng = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        drawn = rng.integers(0, positions, min(_BATCH, positions))
        own, numbers_drawn = logs[:, drawn], gates[drawn]
        total = np.einsum("nc,cnv->nv", powers[numbers_drawn], own)
        total = np.exp(total - total.max(axis=1, keepdims=True))
        total /= total.sum(axis=1, keepdims=True)
        # The gradient of the logarithm of a product is what each chain expects less what it says of the character.
        slope = np.einsum("nv,cnv->nc", total, own) - own[:, np.arange(len(drawn)), symbols[drawn]].T
        gradient = _PULL * (powers - begin)
        np.add.at(gradient, numbers_drawn, slope / np.float32(len(drawn)))
        mean = _DECAY * mean + (1 - _DECAY) * gradient
        square = _DECAY_SQUARES * square + (1 - _DECAY_SQUARES) * gradient**2
        rate = _RATE * (1 - (step - 1) / steps)
        powers -= (rate * (mean / (1 - _DECAY**step)) / (np.sqrt(square / (1 - _DECAY_SQUARES**step)) + 1e-8)).astype(
            np.float32
        )
        np.maximum(powers, 0, out=powers)
    return powers
