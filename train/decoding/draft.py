"""Captions in progress and finished ones, and the filter that refuses words during decoding."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema import Dataset
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.steps.profanity import WordList
from memeloom.train.contract import Captioner, Prompt

# Smaller batches are not worth shrinking: each size may be compiled anew.
_MIN_ROWS = 8
# Tokens that may be refused at one position before the caption is abandoned.
MAX_REFUSALS = 16


@dataclass(frozen=True, slots=True)
class WrittenCaption:
    """A finished caption.

    texts: one per text box. score: geometric mean of its token probabilities, 0 to 1.
    cut: True if it ended before all boxes were closed, because it was too long or could not continue.
    """

    template: DatasetTemplate
    texts: tuple[str, ...]
    score: float
    cut: bool

    @property
    def empty(self) -> bool:
        """Return True if no box has text."""
        return not any(text.strip() for text in self.texts)


@dataclass(frozen=True, slots=True)
class Draft:
    """A caption in progress.

    most: maximum number of characters, start text and separators included. text: with the start text.
    left: boxes still open. likelihood: natural logarithm, of the tokens. stopped: no more text fits.
    """

    model: Captioner
    prompt: Prompt
    most: int
    text: str
    left: int
    tokens: tuple[int, ...] = ()
    likelihood: float = 0.0
    stopped: bool = False

    @classmethod
    def begin(cls, model: Captioner, prompt: Prompt, most: int) -> "Draft":
        """Return the draft before the first token."""
        left = prompt.template.boxes - prompt.start.count(model.separator)
        return cls(model, prompt, most, prompt.start, left, stopped=len(prompt.start) >= most)

    @property
    def complete(self) -> bool:
        """Return True if all boxes are closed."""
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
        """Return the caption; an open box is closed and the remaining ones are empty."""
        boxes = self.prompt.template.boxes
        texts = (*self.text.split(self.model.separator), *[""] * boxes)[:boxes]
        score = float(np.exp(self.likelihood / max(len(self.tokens), 1)))
        return WrittenCaption(self.prompt.template, tuple([text.strip() for text in texts]), score, not self.complete)


def rows_to_keep(wanted: NDArray[np.bool_], rows: int = 1) -> NDArray[np.int64] | None:
    """Return the rows of a batch to continue with, those `wanted` first; None if shrinking is not worth it.

    Batches are only halved, so that there are few sizes to compile. rows: per caption in the batch.
    """
    size = len(wanted)
    while (half := -(-size // 2)) * rows >= _MIN_ROWS and half < size and wanted.sum() <= half:
        size = half
    return None if size == len(wanted) else np.argsort(~wanted, kind="stable")[:size]


class WordFilter:
    """Refuses drafts with a listed word as soon as the word is complete.

    A word is complete before a character other than a letter, or at the end of the caption; until then it may become
    another one ("ass", "assume"). refused: number of tokens refused so far.
    """

    def __init__(self, words: WordList, model: Captioner) -> None:
        self.refused = 0
        self._words, self._separator = words, model.separator
        self._words_grow = _words_grow(model)

    @classmethod
    def of(cls, settings: Dataset, model: Captioner) -> "WordFilter":
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


def _words_grow(model: Captioner) -> bool:
    """Return True if a token may continue the previous token's word, as characters and subwords do."""
    tokens = range(len(model.boxes_closed))
    first = next((token for token in tokens if model.text([token])[-1:].isalnum()), None)
    if first is None:
        return False
    begun = len(model.text([first]))
    return any(model.text([first, token])[begun : begun + 1].isalnum() for token in tokens)
