"""The captions of a batch that is sampled: a row each, extended by a token per step."""

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import CaptionWriter
from memeloom.train.decoding.choosers import Chooser
from memeloom.train.decoding.draft import MAX_REFUSALS, Draft, WordFilter, WrittenCaption


class CaptionRows(Protocol):
    """Captions in progress. going: True for each that is not finished, (captions,)."""

    going: NDArray[np.bool_]

    def extend(
        self, captions: NDArray[np.int64], log_probs: NDArray[np.float32], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Extend some captions by a token each and return the tokens, refused ones replaced.

        captions: which, (rows,). log_probs: of every token, (rows, tokens). tokens: chosen, (rows,).
        """
        ...

    def written(self) -> list[WrittenCaption]:
        """Return all captions."""
        ...


def open_rows(
    model: CaptionWriter, drafts: list[Draft], choose: Chooser, rng: np.random.Generator, word_filter: WordFilter | None
) -> CaptionRows:
    """Return the rows of `drafts`: arrays if each token is a character and none is refused, which is much faster."""
    if model.unit == "character" and word_filter is None:
        return _CharacterRows(model, drafts)
    return _DraftRows(drafts, choose, rng, word_filter)


class _CharacterRows:
    """As `Draft` does for one caption, with an array for each of its fields."""

    def __init__(self, model: CaptionWriter, drafts: list[Draft]) -> None:
        self._model, self._drafts = model, drafts
        self._left = np.array([draft.left for draft in drafts])
        self._room = np.array([max(draft.most - len(draft.text), 0) for draft in drafts])
        self._tokens = np.zeros((len(drafts), int(self._room.max())), np.int64)
        self._count = np.zeros(len(drafts), np.int64)
        self._likelihood = np.zeros(len(drafts))
        self.going = np.array([not draft.done for draft in drafts])

    def extend(
        self, captions: NDArray[np.int64], log_probs: NDArray[np.float32], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        self._tokens[captions, self._count[captions]] = tokens
        self._count[captions] += 1
        self._likelihood[captions] += log_probs[np.arange(len(captions)), tokens]
        self._left[captions] -= self._model.boxes_closed[tokens]
        self.going[captions] = (self._left[captions] > 0) & (self._count[captions] < self._room[captions])
        return tokens

    def written(self) -> list[WrittenCaption]:
        rows = zip(self._drafts, self._tokens.tolist(), self._count, self._left, self._likelihood, strict=True)
        made = []
        for draft, all_tokens, count, left, likelihood in rows:
            tokens = tuple(all_tokens[:count])
            text = draft.text + self._model.text(tokens)
            made.append(replace(draft, text=text, left=int(left), tokens=tokens, likelihood=float(likelihood)))
        return [draft.written() for draft in made]


class _DraftRows:
    """Captions as drafts. After too many refusals at one place a draft is abandoned."""

    def __init__(
        self, drafts: list[Draft], choose: Chooser, rng: np.random.Generator, word_filter: WordFilter | None
    ) -> None:
        self._drafts, self._choose, self._rng, self._word_filter = drafts, choose, rng, word_filter
        self.going = np.array([not draft.done for draft in drafts])

    def extend(
        self, captions: NDArray[np.int64], log_probs: NDArray[np.float32], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        for row, caption in enumerate(captions):
            draft, tokens[row] = self._extended(self._drafts[caption], log_probs[row], int(tokens[row]))
            self._drafts[caption], self.going[caption] = draft, not draft.done
        return tokens

    def written(self) -> list[WrittenCaption]:
        return [draft.written() for draft in self._drafts]

    def _extended(self, draft: Draft, log_probs: NDArray[np.float32], token: int) -> tuple[Draft, int]:
        """Return `draft` with `token`, or a replacement if that is refused, and the token. log_probs: (tokens,)."""
        left = log_probs
        for _ in range(MAX_REFUSALS):
            longer = draft.extended(token, float(log_probs[token]))
            if self._word_filter is None or self._word_filter.allows(longer):
                return longer, token
            left = np.where(np.arange(len(left)) == token, np.float32(-np.inf), left)
            if not np.isfinite(left).any():
                break
            token = int(self._choose(left[np.newaxis], self._rng)[0])
        return draft.abandoned(), token
