"""A caption while it is being written, and when it is."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.contract import Captioner, Prompt

# A sheet of so few rows is not worth making smaller: each size may be compiled anew.
_FEW_ROWS = 8


@dataclass(frozen=True, slots=True)
class Written:
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
        """What stands on the sheet before the first token."""
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
        left = self.left - int(self.model.closes[token])
        likelihood = self.likelihood + log_probability
        return Draft(self.model, self.prompt, self.most, text, left, tokens, likelihood, stopped)

    def abandoned(self) -> "Draft":
        """A draft that says nothing, in place of this one."""
        return replace(self, text="", stopped=True)

    def written(self) -> Written:
        """What is open is closed, and the boxes left are empty."""
        boxes = self.prompt.template.boxes
        texts = (*self.text.split(self.model.separator), *[""] * boxes)[:boxes]
        score = float(np.exp(self.likelihood / max(len(self.tokens), 1)))
        return Written(self.prompt.template, tuple([text.strip() for text in texts]), score, not self.complete)


def worth_keeping(wanted: NDArray[np.bool_], rows: int = 1) -> NDArray[np.int64] | None:
    """Which captions of a sheet to go on with, those `wanted` first; None if it is not worth the change.

    rows: how many each has on the sheet. A sheet is halved when half of it will do, so that it has few sizes.
    """
    size = len(wanted)
    while (half := -(-size // 2)) * rows >= _FEW_ROWS and half < size and wanted.sum() <= half:
        size = half
    return None if size == len(wanted) else np.argsort(~wanted, kind="stable")[:size]
