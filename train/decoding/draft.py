"""Captions in progress and finished ones, and the filter that refuses words during decoding."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema import Dataset
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.steps.profanity import WordList
from memeloom.train.contract import CaptionWriter, Prompt

# Smaller batches are not worth shrinking: each size may be compiled anew.
_MIN_ROWS = 8
# Rows are selected when at least one in this number is finished.
_FEW_FINISHED = 16
# Words in a row that two boxes share only by mistake: 1 in 150 captions of people do.
_PHRASE = 3
# Tokens that may be refused at one position before the caption is abandoned.
MAX_REFUSALS = 16


@dataclass(frozen=True, slots=True)
class WrittenCaption:
    """A finished caption.

    texts: one per text box of the template; the model may leave the last ones empty.
    score: geometric mean of its token probabilities, 0 to 1.
    finished: False if the model did not end it: it was too long, or could not continue. It then ends in a whole word.
    """

    template: DatasetTemplate
    texts: tuple[str, ...]
    score: float
    finished: bool

    @property
    def empty(self) -> bool:
        """Return True if no box has text."""
        return not any(text.strip() for text in self.texts)

    @property
    def repetitive(self) -> bool:
        """Return True if a box repeats several words in a row of the box before it."""
        boxes = [text.split() for text in self.texts]
        return any(
            len(box) > 1 and (later == box or not _runs(box).isdisjoint(_runs(later))) for box, later in pairwise(boxes)
        )

    @property
    def usable(self) -> bool:
        """Return True if it is worth showing: neither empty nor repetitive."""
        return not (self.empty or self.repetitive)


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _PHRASE]) for at in range(len(words) - _PHRASE + 1)}


@dataclass(frozen=True, slots=True)
class Draft:
    """A caption in progress.

    most: maximum number of characters, start text and separators included. text: with the start text.
    left: boxes still open. likelihood: natural logarithm, of the tokens. stopped: no more text fits.
    """

    model: CaptionWriter
    prompt: Prompt
    most: int
    text: str
    left: int
    tokens: tuple[int, ...] = ()
    likelihood: float = 0.0
    stopped: bool = False

    @classmethod
    def begin(cls, model: CaptionWriter, prompt: Prompt, most: int) -> "Draft":
        """Return the draft before the first token."""
        left = prompt.template.boxes - prompt.start.count(model.separator)
        return cls(model, prompt, most, prompt.start, left, stopped=len(prompt.start) >= most)

    @property
    def complete(self) -> bool:
        """Return True if the model ended the caption, or closed the last box."""
        return self.left <= 0

    @property
    def done(self) -> bool:
        """Return True if no token follows."""
        return self.complete or self.stopped

    def extended(self, token: int, log_probability: float) -> "Draft":
        """Return the draft with `token`; if that does not fit, without it and stopped."""
        tokens = (*self.tokens, token)
        if self.model.unit == "character":  # spares decoding the whole text at every step
            text = self.text + self.model.text((token,))
        else:
            text = self.prompt.start + self.model.text(tokens)
        if len(text) > self.most:
            return replace(self, stopped=True)
        # Some tokens have no text, so tokens are limited, too.
        stopped = max(len(text), len(self.prompt.start) + len(tokens)) >= self.most
        left = self.left - int(self.model.boxes_closed[token])
        likelihood = self.likelihood + log_probability
        return Draft(self.model, self.prompt, self.most, text, left, tokens, likelihood, stopped)

    def abandoned(self) -> "Draft":
        """Return an empty, stopped draft in place of this one."""
        return replace(self, text="", stopped=True)

    def written(self) -> WrittenCaption:
        """Return the caption. An open box is closed, without the word that it breaks off in; the others are empty."""
        boxes, separator = self.prompt.template.boxes, self.model.separator
        text = self.text
        if not self.complete and self.model.unit != "word":
            whole = re.sub(rf"(?<=[\s{re.escape(separator)}])[^\s{re.escape(separator)}]+$", "", text)
            text = text[: max(len(whole), len(self.prompt.start))]
        texts = (*text.split(separator), *[""] * boxes)[:boxes]
        score = float(np.exp(self.likelihood / max(len(self.tokens), 1)))
        return WrittenCaption(self.prompt.template, tuple([text.strip() for text in texts]), score, self.complete)


def rows_to_keep(wanted: NDArray[np.bool_], rows: int = 1, *, any_number: bool = False) -> NDArray[np.int64] | None:
    """Return the rows of a batch to continue with, those `wanted` first; None if shrinking is not worth it.

    rows: per caption in the batch. any_number: False only halves batches, so that there are few sizes to compile.
    """
    size = len(wanted)
    if any_number:
        return None if wanted.sum() * _FEW_FINISHED > size * (_FEW_FINISHED - 1) else np.flatnonzero(wanted)
    while (half := -(-size // 2)) * rows >= _MIN_ROWS and half < size and wanted.sum() <= half:
        size = half
    return None if size == len(wanted) else np.argsort(~wanted, kind="stable")[:size]


class WordFilter:
    """Refuses drafts with a listed word as soon as the word is complete.

    A word is complete before a character other than a letter, or at the end of the caption; until then it may become
    another one ("ass", "assume"). refused: number of tokens refused so far.
    """

    def __init__(self, words: WordList, model: CaptionWriter) -> None:
        self.refused = 0
        self._words, self._separator = words, model.separator
        self._words_grow = _words_grow(model)

    @classmethod
    def of(cls, settings: Dataset, model: CaptionWriter) -> "WordFilter":
        """Return a filter with the word lists of the dataset's settings, even if the dataset keeps such captions."""
        words = WordList(settings.profanity_tiers, settings.profanity_allow, settings.profanity_deny)
        return cls(words, model)

    def allows(self, draft: Draft) -> bool:
        """Return True if `draft` is allowed; count a refusal if not."""
        text = "\n".join(draft.written().texts) if draft.done else ""
        allowed = not self._words.find(text) if draft.done else self.allows_text(draft.text)
        self.refused += not allowed
        return allowed

    def allows_text(self, text: str) -> bool:
        """Return True if a caption may begin with `text`, in which the separator ends boxes."""
        found = self._words.find(text.replace(self._separator, "\n"))
        return not any(each.end < len(text) or not self._words_grow for each in found)


def _words_grow(model: CaptionWriter) -> bool:
    """Return True if a token may continue the previous token's word, as characters and subwords do."""
    tokens = range(len(model.boxes_closed))
    first = next((token for token in tokens if model.text([token])[-1:].isalnum()), None)
    if first is None:
        return False
    begun = len(model.text([first]))
    return any(model.text([first, token])[begun : begun + 1].isalnum() for token in tokens)
