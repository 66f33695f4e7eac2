"""How the next token is drawn from the probabilities of all of them."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Log-probabilities (rows, tokens) to a token a row (rows,).
Chooser: TypeAlias = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.int64]]


def by_threshold(min_score: float) -> Chooser:
    """Method 2 of the Imgflip article.

    For every row r is drawn uniformly from [min_score, 1], and one of the tokens whose probability is at least
    r times the highest is picked, each with equal chance.
    """

    def choose(scores: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
        highest = scores.max(axis=1, keepdims=True)
        bar = rng.uniform(min_score, 1.0, (len(scores), 1))
        # The bar of r = 1 may round above the highest probability; the highest always passes.
        passed = (np.exp(scores - highest) >= bar) | (scores == highest)
        rank = np.floor(rng.random(len(scores)) * passed.sum(axis=1)).astype(np.int64) + 1
        chosen: NDArray[np.int64] = np.argmax(np.cumsum(passed, axis=1) == rank[:, np.newaxis], axis=1)
        return chosen

    return choose
