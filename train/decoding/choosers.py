"""Ways to choose the next token of each row."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Maps log-probabilities (rows, tokens) to a token per row (rows,). -inf is chosen only if there is nothing else.
Chooser: TypeAlias = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.int64]]


def greedily(log_probs: NDArray[np.float32], _: np.random.Generator) -> NDArray[np.int64]:
    """Return the likeliest token of every row, the first of equals."""
    chosen: NDArray[np.int64] = log_probs.argmax(axis=1)
    return chosen


def by_threshold(min_score: float) -> Chooser:
    """Return method 2 of the Imgflip article.

    For every row r is drawn uniformly from [min_score, 1]; then one of the tokens with at least r times the highest
    probability is drawn uniformly.
    """

    def choose(log_probs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
        return _drawn(passing(log_probs, min_score, rng), rng)

    return choose


def by_sampling(temperature: float = 1.0, *, top_k: int | None = None, top_p: float | None = None) -> Chooser:
    """Return a chooser that draws by probability, after these changes in this order.

    Args:
        temperature: divides the log-probabilities; below 1 likely tokens become likelier.
        top_k: number of the likeliest tokens to draw from.
        top_p: the likeliest tokens that together have this probability, including the one that reaches it (nucleus
            sampling, Holtzman et al. 2019, https://arxiv.org/abs/1904.09751).
    """

    def choose(log_probs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
        below = log_probs.astype(np.float64)
        below -= below.max(axis=1, keepdims=True)
        # A temperature near zero divides all but the best to -inf, as it should.
        with np.errstate(over="ignore"):
            weights = np.exp(below / temperature)
        if top_k is not None and top_k < weights.shape[1]:
            # By rank, not by weight: of equally likely tokens no more than `top_k` are left.
            unlikely = np.argpartition(-weights, top_k - 1, axis=1)[:, top_k:]
            np.put_along_axis(weights, unlikely, 0.0, axis=1)
        if top_p is not None:
            weights = _nucleus(weights, top_p)
        return _drawn(weights, rng)

    return choose


def passing(log_probs: NDArray[Any], min_score: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which log-probabilities (rows, n) reach r times the highest probability of their row, (rows, n).

    r is drawn for every row uniformly from [min_score, 1]. The highest always passes, -inf never does.
    """
    highest = log_probs.max(axis=1, keepdims=True)
    ratio = np.exp(log_probs - highest)
    threshold = rng.uniform(min_score, 1.0, (len(log_probs), 1))
    # With r = 1 the threshold may round above the highest probability.
    passed: NDArray[np.bool_] = ((ratio >= threshold) | (log_probs == highest)) & (ratio > 0)
    return passed


def _nucleus(weights: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Keep the highest weights of each row until they hold `share` of its sum; set the others to zero."""
    order = np.argsort(-weights, axis=1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    ranked[before >= share * weights.sum(axis=1, keepdims=True)] = 0.0
    left = np.zeros_like(weights)
    np.put_along_axis(left, order, ranked, axis=1)
    return left


def _drawn(weights: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one column of each row (rows, n) by weight; never one of weight zero."""
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    at = rng.random((len(weights), 1)) * reached[:, -1:]
    # Rounding may lift `at` to the whole sum.
    at = np.minimum(at, np.nextafter(reached[:, -1:], 0))
    chosen: NDArray[np.int64] = np.argmax(reached > at, axis=1)
    return chosen
