"""How the next token is drawn from the probabilities of all of them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Log-probabilities (rows, tokens) to a token a row (rows,). One of -inf is never chosen while there is another.
Chooser: TypeAlias = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.int64]]


def greedily(scores: NDArray[np.float32], _: np.random.Generator) -> NDArray[np.int64]:
    """The likeliest token of every row; of several the first. Nothing is drawn."""
    chosen: NDArray[np.int64] = scores.argmax(axis=1)
    return chosen


def by_threshold(min_score: float) -> Chooser:
    """Method 2 of the Imgflip article.

    For every row r is drawn uniformly from [min_score, 1], and one of the tokens whose probability is at least
    r times the highest is picked, each with equal chance.
    """

    def choose(scores: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
        return _drawn(passing(scores, min_score, rng), rng)

    return choose


def by_sampling(temperature: float = 1.0, *, top_k: int | None = None, top_p: float | None = None) -> Chooser:
    """A token as often as its probability says, after these changes, in this order.

    temperature: the log-probabilities are divided by it; below 1 the likely become likelier.
    top_k: only among so many of the likeliest. top_p: only among the likeliest that have this probability together,
    the one that completes it included (nucleus sampling, Holtzman et al. 2019, https://arxiv.org/abs/1904.09751).
    """

    def choose(scores: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
        below = scores.astype(np.float64)
        below -= below.max(axis=1, keepdims=True)
        # A temperature of nearly nought divides all but the best to -inf, which is what it asks for.
        with np.errstate(over="ignore"):
            weights = np.exp(below / temperature)
        if top_k is not None and top_k < weights.shape[1]:
            # By rank, not by weight: of tokens that are equally likely no more than `top_k` are left.
            unlikely = np.argpartition(-weights, top_k - 1, axis=1)[:, top_k:]
            np.put_along_axis(weights, unlikely, 0.0, axis=1)
        if top_p is not None:
            weights = _nucleus(weights, top_p)
        return _drawn(weights, rng)

    return choose


def passing(scores: NDArray[Any], min_score: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which of the log-probabilities (rows, n) stand at least at r times the highest of their row, (rows, n).

    r is drawn for every row uniformly from [min_score, 1]. The highest always passes, -inf never does.
    """
    highest = scores.max(axis=1, keepdims=True)
    ratio = np.exp(scores - highest)
    bar = rng.uniform(min_score, 1.0, (len(scores), 1))
    # The bar of r = 1 may round above the highest probability.
    passed: NDArray[np.bool_] = ((ratio >= bar) | (scores == highest)) & (ratio > 0)
    return passed


def _nucleus(weights: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The highest weights of each row until they hold `share` of its sum; the others are nought."""
    order = np.argsort(-weights, axis=1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    ranked[before >= share * weights.sum(axis=1, keepdims=True)] = 0.0
    left = np.zeros_like(weights)
    np.put_along_axis(left, order, ranked, axis=1)
    return left


def _drawn(weights: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """One of each row (rows, n), as often as its weight says; one of no weight never."""
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    at = rng.random((len(weights), 1)) * reached[:, -1:]
    # Rounding may lift `at` to the whole sum.
    at = np.minimum(at, np.nextafter(reached[:, -1:], 0))
    chosen: NDArray[np.int64] = np.argmax(reached > at, axis=1)
    return chosen
