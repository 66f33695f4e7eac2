"""Several chains as one distribution: the product of their estimates to powers that depend on what they know.

After Hinton, "Training Products of Experts by Minimizing Contrastive Divergence", 2002, and the gated mixing of
Mahoney, "Adaptive Weighing of Context Models for Lossless Data Compression", 2005. A product is sharper than an average
where the chains agree. Its powers are fitted by gradient descent on the likelihood.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.chain import Estimates
from memeloom.train.ngram.levels import Floats

_BATCH: Final = 4096
_RATE, _DECAY, _DECAY_SQUARES = 0.05, 0.9, 0.99
# Pulls powers that few characters fit to what all start from.
_PULL: Final = 1e-4


class Gate:
    """Numbers positions by the depths of the first two chains. contexts: how many contexts each of these has."""

    def __init__(self, contexts: Sequence[int]) -> None:
        self._contexts = tuple(contexts[:2])
        self.count = int(np.prod(self._contexts))

    def of(self, estimates: Sequence[Estimates]) -> NDArray[np.int64]:
        """Return the number of each position, 0 … `count` - 1."""
        number = np.zeros_like(estimates[0].depth)
        for made, contexts in zip(estimates, self._contexts, strict=False):
            number = number * contexts + made.depth
        return number


def mixed(estimates: Sequence[Estimates], powers: Floats, gate: NDArray[np.int64]) -> Floats:
    """Return log-probabilities, (positions, characters).

    powers: of each chain by number of the gate, (numbers, chains). gate: number of each position.
    """
    own = powers[gate]
    total = np.zeros_like(estimates[0].probabilities)
    for chain, made in enumerate(estimates):
        total += own[:, chain, np.newaxis] * np.log(made.probabilities)
    total -= total.max(axis=1, keepdims=True)
    total -= np.log(np.exp(total).sum(axis=1, keepdims=True))
    return total


def fit_powers(
    logs: Floats, gate: NDArray[np.int64], symbols: NDArray[np.int64], numbers: int, seed: int, steps: int = 400
) -> Floats:
    """Return the powers, (numbers, chains), under which characters are likeliest, by Adam.

    logs: of the chains' estimates, (chains, positions, characters). gate: number of each position. symbols: the
    character at each, from 0.
    """
    chains, positions, _ = logs.shape
    begin = np.full((numbers, chains), 1.2 / chains, np.float32)
    powers, mean, square = begin.copy(), np.zeros_like(begin), np.zeros_like(begin)
    rng = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        drawn = rng.integers(0, positions, min(_BATCH, positions))
        own, numbers_drawn = logs[:, drawn], gate[drawn]
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
    return powers
