"""Sampling of captions token by token, in batches, with several ways to choose the next token."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.draft import MAX_REFUSALS, Draft, WordFilter, WrittenCaption, rows_to_keep

# Rows of one batch.
MAX_ROWS = 256
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


def write_captions(
    model: Captioner,
    prompts: Sequence[Prompt],
    choose: Chooser,
    *,
    max_characters: int,
    rng: np.random.Generator,
    word_filter: WordFilter | None = None,
) -> list[WrittenCaption]:
    """Write one caption for each of `prompts`, which may repeat.

    A caption ends when all boxes of its template are closed, or at `max_characters` (separators included); an open box
    is then closed; the remaining ones are empty. Refused tokens are replaced; a caption that cannot continue is empty.
    """
    written: list[WrittenCaption] = []
    for first in range(0, len(prompts), MAX_ROWS):
        drafts = [Draft.begin(model, prompt, max_characters) for prompt in prompts[first : first + MAX_ROWS]]
        _write_batch(model, drafts, choose, rng, word_filter)
        written += [draft.written() for draft in drafts]
    return written


def _write_batch(
    model: Captioner, drafts: list[Draft], choose: Chooser, rng: np.random.Generator, word_filter: WordFilter | None
) -> None:
    state = model.start_decoding([draft.prompt for draft in drafts])
    # The draft of each row.
    at = np.arange(len(drafts))
    open_rows = np.array([not draft.done for draft in drafts])
    while open_rows.any():
        log_probs = state.log_probs()
        tokens = choose(log_probs, rng)
        for row in np.flatnonzero(open_rows):
            drafts[at[row]], tokens[row] = _extended(
                drafts[at[row]], log_probs[row], int(tokens[row]), choose, rng, word_filter
            )
        open_rows = np.array([not drafts[number].done for number in at])
        if not open_rows.any():
            break
        if (kept := rows_to_keep(open_rows)) is not None:
            state.select(kept)
            at, open_rows, tokens = at[kept], open_rows[kept], tokens[kept]
        state.append(tokens)


def _extended(
    draft: Draft,
    log_probs: NDArray[np.float32],
    token: int,
    choose: Chooser,
    rng: np.random.Generator,
    word_filter: WordFilter | None,
) -> tuple[Draft, int]:
    """Return `draft` with `token`, or a replacement if that is refused, and the token.

    After too many refusals the draft is abandoned. log_probs: (tokens,).
    """
    left = log_probs
    for _ in range(MAX_REFUSALS):
        longer = draft.extended(token, float(log_probs[token]))
        if word_filter is None or word_filter.allows(longer):
            return longer, token
        left = np.where(np.arange(len(left)) == token, np.float32(-np.inf), left)
        if not np.isfinite(left).any():
            break
        token = int(choose(left[np.newaxis], rng)[0])
    return draft.abandoned(), token
