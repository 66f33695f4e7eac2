"""How the next token is drawn from the probabilities of all of them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.draft import TRIES, Draft, WordFilter, WrittenCaption, rows_to_keep

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


# Rows of one state.
MOST_ROWS = 256


def write_captions(
    model: Captioner,
    prompts: Sequence[Prompt],
    choose: Chooser,
    *,
    max_characters: int,
    rng: np.random.Generator,
    word_filter: WordFilter | None = None,
) -> list[WrittenCaption]:
    """One caption for each of `prompts`, which may repeat.

    A caption ends when all boxes of its template are closed, or at `max_characters` (separators counted); what is
    open then is closed there, and the boxes left are empty. A token that the filter refuses is chosen anew without it;
    a caption that cannot go on so comes out empty.
    """
    done: list[WrittenCaption] = []
    for first in range(0, len(prompts), MOST_ROWS):
        drafts = [Draft.begun(model, prompt, max_characters) for prompt in prompts[first : first + MOST_ROWS]]
        _write_sheet(model, drafts, choose, rng, word_filter)
        done += [draft.written() for draft in drafts]
    return done


def _write_sheet(
    model: Captioner, drafts: list[Draft], choose: Chooser, rng: np.random.Generator, word_filter: WordFilter | None
) -> None:
    """Go on with all `drafts`, in place, until they are done."""
    state = model.start_decoding([draft.prompt for draft in drafts])
    # The draft that stands in each row of the state.
    at = np.arange(len(drafts))
    going = np.array([not draft.done for draft in drafts])
    while going.any():
        scores = state.log_probs()
        tokens = choose(scores, rng)
        for row in np.flatnonzero(going):
            drafts[at[row]], tokens[row] = _longer(
                drafts[at[row]], scores[row], int(tokens[row]), choose, rng, word_filter
            )
        going = np.array([not drafts[number].done for number in at])
        if not going.any():
            break
        if (kept := rows_to_keep(going)) is not None:
            state.select(kept)
            at, going, tokens = at[kept], going[kept], tokens[kept]
        state.append(tokens)


def _longer(
    draft: Draft,
    scores: NDArray[np.float32],
    token: int,
    choose: Chooser,
    rng: np.random.Generator,
    word_filter: WordFilter | None,
) -> tuple[Draft, int]:
    """`draft` with `token`, or another if that is refused, and which it was; abandoned if too many are.

    scores: log-probabilities, (tokens,).
    """
    left = scores
    for _ in range(TRIES):
        longer = draft.extended(token, float(scores[token]))
        if word_filter is None or word_filter.allows(longer):
            return longer, token
        left = np.where(np.arange(len(left)) == token, np.float32(-np.inf), left)
        if not np.isfinite(left).any():
            break
        token = int(choose(left[np.newaxis], rng)[0])
    return draft.abandoned(), token
