"""A caption while it is being written, and when it is."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.schema import Dataset
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.steps.profanity import WordList
from memeloom.train.contract import Captioner, Prompt

# A state of so few rows is not worth making smaller: each size may be compiled anew.
_FEW_ROWS = 8


@dataclass(frozen=True, slots=True)
class WrittenCaption:
    """One caption as the model wrote it.

    texts: one a text box. score: geometric mean of the probabilities of the tokens drawn, 0 to 1.
    cut: whether it had to end before all boxes were closed, for it grew too long or could not go on.
    """

    template: DatasetTemplate
    texts: tuple[str, ...]
    score: float
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether no box says anything."""
        return not any(text.strip() for text in self.texts)


@dataclass(frozen=True, slots=True)
class Draft:
    """A caption so far.

    most: characters that it may have, start text and separators counted. text: with the start text.
    left: boxes still to be closed. likelihood: natural logarithm, of the tokens. stopped: nothing more fits.
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
    def begun(cls, model: Captioner, prompt: Prompt, most: int) -> "Draft":
        """What stands on the state before the first token."""
        left = prompt.template.boxes - prompt.start.count(model.separator)
        return cls(model, prompt, most, prompt.start, left, stopped=len(prompt.start) >= most)

    @property
    def complete(self) -> bool:
        """Whether all boxes are closed."""
        return self.left <= 0

    @property
    def done(self) -> bool:
        """Whether nothing is to be written any more."""
        return self.complete or self.stopped

    def extended(self, token: int, log_probability: float) -> "Draft":
        """The draft with one token more; without it, but stopped, if it says more than fits."""
        tokens = (*self.tokens, token)
        if self.model.unit == "character":  # spares reading the whole text again at every step
            text = self.text + self.model.text((token,))
        else:
            text = self.prompt.start + self.model.text(tokens)
        if len(text) > self.most:
            return replace(self, stopped=True)
        # Some tokens say nothing by themselves, so they are counted too.
        stopped = max(len(text), len(self.prompt.start) + len(tokens)) >= self.most
        left = self.left - int(self.model.boxes_closed[token])
        likelihood = self.likelihood + log_probability
        return Draft(self.model, self.prompt, self.most, text, left, tokens, likelihood, stopped)

    def abandoned(self) -> "Draft":
        """A draft that says nothing, in place of this one."""
        return replace(self, text="", stopped=True)

    def written(self) -> WrittenCaption:
        """What is open is closed, and the boxes left are empty."""
        boxes = self.prompt.template.boxes
        texts = (*self.text.split(self.model.separator), *[""] * boxes)[:boxes]
        score = float(np.exp(self.likelihood / max(len(self.tokens), 1)))
        return WrittenCaption(self.prompt.template, tuple([text.strip() for text in texts]), score, not self.complete)


def rows_to_keep(wanted: NDArray[np.bool_], rows: int = 1) -> NDArray[np.int64] | None:
    """Which captions of a state to go on with, those `wanted` first; None if it is not worth the change.

    rows: how many each has on the state. A state is halved when half of it will do, so that it has few sizes.
    """
    size = len(wanted)
    while (half := -(-size // 2)) * rows >= _FEW_ROWS and half < size and wanted.sum() <= half:
        size = half
    return None if size == len(wanted) else np.argsort(~wanted, kind="stable")[:size]


# Tokens that may be refused in one place of a caption; it is given up then.
TRIES = 16


class WordFilter:
    """Refuses to let a caption say a word of a list, as soon as the word is complete.

    A word is complete when something that is no letter stands behind it, or when nothing more comes: until then it
    may become another ("ass", "assume"). refused: how many times a token was, so far.
    """

    def __init__(self, words: WordList, model: Captioner) -> None:
        self.refused = 0
        self._words, self._separator = words, model.separator
        self._grows = _words_grow(model)

    @classmethod
    def of(cls, settings: Dataset, model: Captioner) -> "WordFilter":
        """A filter with the word lists of the dataset's settings, whatever they do with such captions."""
        words = WordList(settings.profanity_tiers, settings.profanity_allow, settings.profanity_deny)
        return cls(words, model)

    def allows(self, draft: Draft) -> bool:
        """Whether `draft` may stand like this; counted if not."""
        whole = "\n".join(draft.written().texts) if draft.done else None
        allowed = self.passes(draft.text) if whole is None else not self._words.find(whole)
        self.refused += not allowed
        return allowed

    def passes(self, text: str) -> bool:
        """Whether a caption may begin with `text`, in which the separator ends boxes."""
        found = self._words.find(text.replace(self._separator, "\n"))
        return not any(each.end < len(text) or not self._grows for each in found)


def _words_grow(model: Captioner) -> bool:
    """Whether a token may go on with the word that the one before began, as characters and pieces of words do."""
    tokens = range(len(model.boxes_closed))
    first = next((token for token in tokens if model.text([token])[-1:].isalnum()), None)
    if first is None:
        return False
    begun = len(model.text([first]))
    return any(model.text([first, token])[begun : begun + 1].isalnum() for token in tokens)
