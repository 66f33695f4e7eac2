"""Beam search for the likeliest captions, batched over prompts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import CaptionWriter, Prompt
from memeloom.train.decoding.choosers import passing
from memeloom.train.decoding.draft import MAX_REFUSALS, Draft, WordFilter, WrittenCaption, rows_to_keep
from memeloom.train.decoding.sampling import MAX_ROWS


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """Settings of a beam search.

    width: beams per prompt.
    length_penalty: captions are ranked by log-likelihood over number of tokens to this power
    (Wu et al. 2016, https://arxiv.org/abs/1609.08144, has such a rule): 0 favours short ones, 1 compares means.
    min_score: None keeps the likeliest beams. Else method 3 of the Imgflip article: r is drawn uniformly from
    [min_score, 1], and beams are drawn uniformly from those whose likelihood is at least r times the highest. With a
    width of 1 that is method 2.
    """

    width: int
    length_penalty: float
    min_score: float | None = None


def search_captions(
    model: CaptionWriter,
    prompts: Sequence[Prompt],
    settings: BeamSettings,
    *,
    captions: int,
    max_characters: int,
    rng: np.random.Generator,
    word_filter: WordFilter | None = None,
) -> list[list[WrittenCaption]]:
    """Return the best `captions` with different texts for each of `prompts`, best first; fewer if no more are found.

    Finished captions come before those cut off at `max_characters`, and those that are not usable last. Beams that the
    filter refuses are dropped. The search for a prompt ends

    - when no open beam can beat the worst of the best `captions` complete ones, however long it grows, or
    - in method 3, when the complete captions have taken the places of all beams, or
    - when all beams are closed or cut off.
    """
    most = max(1, MAX_ROWS // settings.width)
    found: list[list[WrittenCaption]] = []
    for first in range(0, len(prompts), most):
        drafts = [Draft.begin(model, prompt, max_characters) for prompt in prompts[first : first + most]]
        searches = [_PromptSearch(draft, settings, captions, rng, word_filter) for draft in drafts]
        _search_batch(model, searches, settings.width)
        found += [search.best() for search in searches]
    return found


def _search_batch(model: CaptionWriter, searches: list["_PromptSearch"], width: int) -> None:
    state = model.start_decoding([search.prompt for search in searches])
    state.select(np.repeat(np.arange(len(searches)), width))
    # The search of each group of rows.
    at = np.arange(len(searches))
    going = np.array([not search.is_over for search in searches])
    while going.any():
        log_probs = state.log_probs().reshape(len(at), width, -1)
        # Rows without a beam continue as copies of the first of their group.
        parents = np.repeat(np.arange(len(at))[:, np.newaxis] * width, width, axis=1)
        tokens = np.zeros_like(parents)
        for group in np.flatnonzero(going):
            for beam, (parent, token) in enumerate(searches[at[group]].extend(log_probs[group])):
                parents[group, beam] += parent
                tokens[group, beam] = token
        going = np.array([not searches[number].is_over for number in at])
        if not going.any():
            break
        if (kept := rows_to_keep(going, width, any_number=not model.compiled)) is not None:
            at, going, parents, tokens = at[kept], going[kept], parents[kept], tokens[kept]
        if kept is not None or (parents.ravel() != np.arange(parents.size)).any():
            state.select(parents.ravel())
        state.append(tokens.ravel())


class _PromptSearch:
    def __init__(
        self,
        draft: Draft,
        settings: BeamSettings,
        captions: int,
        rng: np.random.Generator,
        word_filter: WordFilter | None,
    ) -> None:
        self.prompt = draft.prompt
        self._settings, self._captions, self._rng, self._word_filter = settings, captions, rng, word_filter
        self._closing_tokens = int((draft.model.boxes_closed > 0).sum())
        self._max_tokens = max(draft.most - len(draft.text), 1)
        self._beams = [] if draft.done else [draft]
        self._finished: dict[tuple[str, ...], tuple[float, WrittenCaption]] = {}
        if draft.done:
            self._finish(draft)

    @property
    def is_over(self) -> bool:
        if not self._beams:
            return True
        if self._settings.min_score is not None:
            return len(self._finished) >= self._settings.width
        complete = sorted(
            (score for score, made in self._finished.values() if made.finished and made.usable), reverse=True
        )
        if len(complete) < self._captions:
            return False
        # Likelihood only falls with more tokens, and no caption has more than `_max_tokens`.
        bound = max(draft.likelihood for draft in self._beams) / self._max_tokens**self._settings.length_penalty
        return bool(bound <= complete[self._captions - 1])

    def extend(self, log_probs: NDArray[np.float32]) -> list[tuple[int, int]]:
        """Extend every beam by a token; return, for each new beam, the beam that it continues and its token.

        log_probs: of every token in each beam, (width, tokens).
        """
        totals = np.full(log_probs.shape, -np.inf)
        for beam, draft in enumerate(self._beams):
            totals[beam] = log_probs[beam] + draft.likelihood
        flat = totals.ravel()
        for _ in range(MAX_REFUSALS):
            moves, refused, finished = self._chosen(flat, log_probs)
            if moves or finished or not refused:
                break
            flat[refused] = -np.inf
        self._beams = [draft for _, _, draft in moves]
        return [(parent, token) for parent, token, _ in moves]

    def _chosen(
        self, totals: NDArray[np.float64], log_probs: NDArray[np.float32]
    ) -> tuple[list[tuple[int, int, Draft]], list[int], int]:
        """Return the new beams, the candidates that the filter refused, and how many others are finished."""
        moves: list[tuple[int, int, Draft]] = []
        refused: list[int] = []
        finished, width = 0, self._settings.width
        # In method 3 a finished caption keeps its place.
        places = totals.size if self._settings.min_score is None else width - len(self._finished)
        for candidate in self._candidates(totals):
            if len(moves) == width or len(moves) + finished == places:
                break
            parent, token = divmod(candidate, log_probs.shape[1])
            draft = self._beams[parent].extended(token, float(log_probs[parent, token]))
            # A finished caption must be among the best of all, as if it continued.
            if draft.done and len(moves) + finished >= width:
                continue
            if self._word_filter is not None and not self._word_filter.allows(draft):
                refused.append(candidate)
            elif draft.done:
                self._finish(draft)
                finished += 1
            else:
                moves.append((parent, token, draft))
        return moves, refused, finished

    def _candidates(self, totals: NDArray[np.float64]) -> list[int]:
        if self._settings.min_score is not None:
            passed = np.flatnonzero(passing(totals[np.newaxis], self._settings.min_score, self._rng)[0])
            return [int(place) for place in self._rng.permutation(passed)]
        most = min(self._settings.width * (1 + self._closing_tokens), totals.size)
        best = np.argpartition(-totals, most - 1)[:most]
        return [int(place) for place in best[np.argsort(-totals[best], kind="stable")] if np.isfinite(totals[place])]

    def _finish(self, draft: Draft) -> None:
        made = draft.written()
        score = draft.likelihood / max(len(draft.tokens), 1) ** self._settings.length_penalty
        if made.texts not in self._finished or self._rank(score, made) < self._rank(*self._finished[made.texts]):
            self._finished[made.texts] = (score, made)

    def best(self) -> list[WrittenCaption]:
        ranked = sorted(self._finished.values(), key=lambda found: self._rank(*found))
        return [made for _, made in ranked[: self._captions]]

    @staticmethod
    def _rank(score: float, made: WrittenCaption) -> tuple[bool, bool, float]:
        return not made.usable, not made.finished, -score
