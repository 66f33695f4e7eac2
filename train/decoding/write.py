"""Writing captions token by token, many at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataset.manifest import DatasetTemplate
from train.contract import Captioner, Prompt
from train.decoding.choose import Chooser

# Rows of one sheet.
_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Written:
    """One caption as the model wrote it.

    texts: one a text box. score: geometric mean of the probabilities of the tokens drawn, 0 to 1.
    cut: whether it had to end before all boxes were closed, for it grew too long.
    """

    template: DatasetTemplate
    texts: tuple[str, ...]
    score: float
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether no box says anything."""
        return not any(text.strip() for text in self.texts)


def write_captions(
    model: Captioner, prompts: Sequence[Prompt], choose: Chooser, *, max_characters: int, rng: np.random.Generator
) -> list[Written]:
    """One caption for each of `prompts`, which may repeat.

    A caption ends when all boxes of its template are closed, or at `max_characters` (separators counted); what is
    open then is closed there, and the boxes left are empty.
    """
    done: list[Written] = []
    for first in range(0, len(prompts), _MOST_ROWS):
        done += _write_sheet(model, prompts[first : first + _MOST_ROWS], choose, max_characters, rng)
    return done


def _write_sheet(
    model: Captioner, prompts: Sequence[Prompt], choose: Chooser, max_characters: int, rng: np.random.Generator
) -> list[Written]:
    sheet = model.open_sheet(prompts)
    rows = np.arange(len(prompts))
    left = np.array([prompt.template.boxes - prompt.start.count(model.separator) for prompt in prompts])
    room = np.array([max_characters - len(prompt.start) for prompt in prompts])
    likelihood = np.zeros(len(prompts))
    drawn: list[NDArray[np.int64]] = []
    lengths = np.zeros(len(prompts), np.int64)
    while (open_ := (left > 0) & (lengths < room)).any():
        scores = sheet.scores()
        tokens = choose(scores, rng)
        sheet.append(tokens)
        drawn.append(tokens)
        likelihood += np.where(open_, scores[rows, tokens], 0)
        lengths += open_
        left = np.where(open_, left - model.closes[tokens], left)
    table = np.stack(drawn, axis=1) if drawn else np.zeros((len(prompts), 0), np.int64)
    made = []
    for row, prompt in enumerate(prompts):
        text = prompt.start + model.text(table[row, : lengths[row]].tolist())
        texts = text[:max_characters].split(model.separator)
        boxes = (*texts, *[""] * prompt.template.boxes)[: prompt.template.boxes]
        score = float(np.exp(likelihood[row] / max(lengths[row], 1)))
        made.append(Written(prompt.template, tuple(box.strip() for box in boxes), score, bool(left[row] > 0)))
    return made
