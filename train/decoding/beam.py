"""Searching for the likeliest captions: several beams a prompt, all prompts side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.draft import TRIES, Draft, WordFilter, WrittenCaption, rows_to_keep
from memeloom.train.decoding.sampling import MOST_ROWS, passing


@dataclass(frozen=True, slots=True)
class Search:
    """How captions are searched for.

    width: beams a prompt.
    length_penalty: captions are compared by their log-likelihood, divided by their tokens to this power
        (Wu et al. 2016, https://arxiv.org/abs/1609.08144, has such a rule): 0 favours short ones, 1 compares means.
    min_score: None lets the likeliest beams live on. Else it is method 3 of the Imgflip article: r is drawn uniformly
        from [min_score, 1], and those that live on are picked, with equal chance, from all whose likelihood is at least
        r times the highest. With a width of 1 that is method 2.
    """

    width: int
    length_penalty: float
    min_score: float | None = None


def search_captions(
    model: Captioner,
    prompts: Sequence[Prompt],
    search: Search,
    *,
    captions: int,
    max_characters: int,
    rng: np.random.Generator,
    word_filter: WordFilter | None = None,
) -> list[list[WrittenCaption]]:
    """The best `captions` for each of `prompts`, best first, all with different texts; fewer if no more are found.

    Complete captions come before those cut off at `max_characters`, and empty ones last. A beam that the filter
    refuses does not live on. The search for a prompt ends

    - when no open beam can beat the worst of the best `captions` complete ones, however long it grows, or
    - in method 3, when the complete ones have taken the place of all beams, or
    - when all beams are closed or cut off.
    """
    most = max(1, MOST_ROWS // search.width)
    found: list[list[WrittenCaption]] = []
    for first in range(0, len(prompts), most):
        begun = [Draft.begun(model, prompt, max_characters) for prompt in prompts[first : first + most]]
        trees = [_Tree(draft, search, captions, rng, word_filter) for draft in begun]
        _search_sheet(model, trees, search.width)
        found += [tree.best() for tree in trees]
    return found


def _search_sheet(model: Captioner, trees: list["_Tree"], width: int) -> None:
    """Grow all `trees`, in place, until they are over."""
    state = model.start_decoding([tree.prompt for tree in trees])
    state.select(np.repeat(np.arange(len(trees)), width))
    # The tree that stands in each group of rows of the state.
    at = np.arange(len(trees))
    going = np.array([not tree.over for tree in trees])
    while going.any():
        scores = state.log_probs().reshape(len(at), width, -1)
        # Rows that no beam needs go on as the first of their group.
        parents = np.repeat(np.arange(len(at))[:, np.newaxis] * width, width, axis=1)
        tokens = np.zeros_like(parents)
        for group in np.flatnonzero(going):
            for beam, (parent, token) in enumerate(trees[at[group]].grow(scores[group])):
                parents[group, beam] += parent
                tokens[group, beam] = token
        going = np.array([not trees[number].over for number in at])
        if not going.any():
            break
        if (kept := rows_to_keep(going, width)) is not None:
            at, going, parents, tokens = at[kept], going[kept], parents[kept], tokens[kept]
        if kept is not None or (parents.ravel() != np.arange(parents.size)).any():
            state.select(parents.ravel())
        state.append(tokens.ravel())


class _Tree:
    """The beams of one prompt, and the captions that came of them."""

    def __init__(
        self, draft: Draft, search: Search, captions: int, rng: np.random.Generator, word_filter: WordFilter | None
    ) -> None:
        self.prompt = draft.prompt
        self._search, self._captions, self._rng, self._censor = search, captions, rng, word_filter
        self._closing = int((draft.model.boxes_closed > 0).sum())
        self._longest = max(draft.most - len(draft.text), 1)
        self._beams = [] if draft.done else [draft]
        self._ended: dict[tuple[str, ...], tuple[float, WrittenCaption]] = {}
        if draft.done:
            self._end(draft)

    @property
    def over(self) -> bool:
        """Whether the best captions are found."""
        if not self._beams:
            return True
        if self._search.min_score is not None:
            return len(self._ended) >= self._search.width
        complete = sorted(
            (score for score, made in self._ended.values() if not made.cut and not made.empty), reverse=True
        )
        if len(complete) < self._captions:
            return False
        # What a beam adds can only lower its likelihood, and no caption is longer than `_longest`.
        hope = max(draft.likelihood for draft in self._beams) / self._longest**self._search.length_penalty
        return bool(hope <= complete[self._captions - 1])

    def grow(self, scores: NDArray[np.float32]) -> list[tuple[int, int]]:
        """Let every beam say one token more: the beam that each new one continues, and its token.

        scores: log-probabilities of every token in each beam, (width, tokens).
        """
        totals = np.full(scores.shape, -np.inf)
        for beam, draft in enumerate(self._beams):
            totals[beam] = scores[beam] + draft.likelihood
        flat = totals.ravel()
        for _ in range(TRIES):
            moves, refused, ended = self._taken(flat, scores)
            if moves or ended or not refused:
                break
            flat[refused] = -np.inf
        self._beams = [draft for _, _, draft in moves]
        return [(parent, token) for parent, token, _ in moves]

    def _taken(
        self, totals: NDArray[np.float64], scores: NDArray[np.float32]
    ) -> tuple[list[tuple[int, int, Draft]], list[int], int]:
        """The new beams, the candidates that the word_filter refused, and how many others ended."""
        moves: list[tuple[int, int, Draft]] = []
        refused: list[int] = []
        ended, width = 0, self._search.width
        # In method 3 a caption that has ended keeps its place.
        places = totals.size if self._search.min_score is None else width - len(self._ended)
        for candidate in self._candidates(totals):
            if len(moves) == width or len(moves) + ended == places:
                break
            parent, token = divmod(candidate, scores.shape[1])
            draft = self._beams[parent].extended(token, float(scores[parent, token]))
            # What ends must be among the best of all, as it would have to be if it went on.
            if draft.done and len(moves) + ended >= width:
                continue
            if self._censor is not None and not self._censor.allows(draft):
                refused.append(candidate)
            elif draft.done:
                self._end(draft)
                ended += 1
            else:
                moves.append((parent, token, draft))
        return moves, refused, ended

    def _candidates(self, totals: NDArray[np.float64]) -> list[int]:
        """Places in `totals`, in the order in which they are taken."""
        if self._search.min_score is not None:
            passed = np.flatnonzero(passing(totals[np.newaxis], self._search.min_score, self._rng)[0])
            return [int(place) for place in self._rng.permutation(passed)]
        most = min(self._search.width * (1 + self._closing), totals.size)
        best = np.argpartition(-totals, most - 1)[:most]
        return [int(place) for place in best[np.argsort(-totals[best], kind="stable")] if np.isfinite(totals[place])]

    def _end(self, draft: Draft) -> None:
        made = draft.written()
        score = draft.likelihood / max(len(draft.tokens), 1) ** self._search.length_penalty
        if made.texts not in self._ended or self._rank(score, made) < self._rank(*self._ended[made.texts]):
            self._ended[made.texts] = (score, made)

    def best(self) -> list[WrittenCaption]:
        """The captions found, best first."""
        ranked = sorted(self._ended.values(), key=lambda found: self._rank(*found))
        return [made for _, made in ranked[: self._captions]]

    @staticmethod
    def _rank(score: float, made: WrittenCaption) -> tuple[bool, bool, float]:
        return made.empty, made.cut, -score
