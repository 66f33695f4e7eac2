"""Writing captions character by character, many at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataset.manifest import DatasetTemplate
from train.characters import MAX_BOXES, PREFIX_WIDTH
from train.model_folder import CaptionModel
from train.pipeline import compose

# Rows of the compiled step. Fewer are padded to a power of two, so that it is compiled a few times only.
_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Written:
    """One caption as the network wrote it.

    texts: one a text box. score: geometric mean of the probabilities of the characters drawn, 0 to 1.
    """

    template: DatasetTemplate
    texts: tuple[str, ...]
    score: float

    @property
    def empty(self) -> bool:
        """Whether no box says anything."""
        return not any(text.strip() for text in self.texts)


def choose_characters(scores: NDArray[np.float32], min_score: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Method 2 of the Imgflip article, for every row of `scores` (n, characters).

    Draws r uniformly from [min_score, 1] and picks, each with equal chance, one of the characters whose
    score is at least r times the highest. Returns indices (n,).
    """
    bar = rng.uniform(min_score, 1.0, len(scores)) * scores.max(axis=1)
    # The bar of r = 1 may round above the highest score; the highest always passes.
    passed = (scores >= bar[:, np.newaxis]) | (scores == scores.max(axis=1, keepdims=True))
    rank = np.floor(rng.random(len(scores)) * passed.sum(axis=1)).astype(np.int64) + 1
    chosen: NDArray[np.int64] = np.argmax(np.cumsum(passed, axis=1) == rank[:, np.newaxis], axis=1)
    return chosen


def write_captions(
    model: CaptionModel,
    templates: Sequence[DatasetTemplate],
    *,
    start: str,
    min_score: float,
    max_characters: int,
    rng: np.random.Generator,
) -> list[Written]:
    """One caption for each of `templates` (they may repeat), all beginning with `start`.

    A caption ends when all boxes of its template are closed by a separator, or at `max_characters`
    (separators counted); what is open then is closed there, and the boxes left are empty.
    """
    done: list[Written] = []
    for first in range(0, len(templates), _MOST_ROWS):
        sheet = _Sheet(model, templates[first : first + _MOST_ROWS], start)
        while sheet.length < max_characters and sheet.open.any():
            sheet.append(choose_characters(sheet.scores(), min_score, rng))
        done += sheet.captions()
    return done


class _Sheet:
    """Captions being written side by side; all of the same length, closed ones wait."""

    def __init__(self, model: CaptionModel, templates: Sequence[DatasetTemplate], start: str) -> None:
        self._model = model
        self._templates = templates
        self._separator = int(model.alphabet.encode(model.separator)[0])
        self._rows = len(templates)
        self._padded = 1 << (self._rows - 1).bit_length()
        self._start = start
        begun = model.alphabet.encode(start)
        self._drawn: list[NDArray[np.uint16]] = []
        self._now = np.zeros((self._rows, len(model.alphabet)), np.float32)
        self._likelihood = np.zeros(self._rows)
        self._steps = np.zeros(self._rows, np.int64)
        self._wanted = np.array([template.boxes for template in templates])
        self._box = np.full(self._rows, start.count(model.separator))
        most = min(max(int(self._wanted.max()), 1), MAX_BOXES)
        self._prefixes = model.alphabet.prefixes([template.id for template in templates], most)
        self._tails = np.zeros((self._padded, model.sequence_length - PREFIX_WIDTH), np.uint16)
        kept = begun[-self._tails.shape[1] :]
        self._tails[:, self._tails.shape[1] - len(kept) :] = kept
        self._seen = len(kept)

    @property
    def length(self) -> int:
        """Characters written so far, the start text counted."""
        return len(self._start) + len(self._drawn)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which captions still have a box to fill."""
        return self._box < self._wanted

    def scores(self) -> NDArray[np.float32]:
        """The probabilities of each caption's next character, (rows, characters)."""
        box = np.minimum(self._box, self._prefixes.shape[1] - 1)
        prefixes = np.zeros((self._padded, PREFIX_WIDTH), np.uint16)
        prefixes[: self._rows] = self._prefixes[np.arange(self._rows), box]
        inputs = compose(prefixes, self._tails, np.full(self._padded, self._seen))
        # One call of the compiled step of whichever backend; `predict` would set up a loop for each character.
        self._now = np.asarray(self._model.network.predict_on_batch(inputs))[: self._rows]
        return self._now

    def append(self, chosen: NDArray[np.int64]) -> None:
        """Write one character to every open caption; indices (rows,)."""
        rows = np.arange(self._rows)
        open_ = self.open
        self._likelihood[open_] += np.log(np.maximum(self._now[rows, chosen], 1e-12))[open_]
        self._steps += open_
        numbers = np.where(open_, chosen + 1, 0).astype(np.uint16)
        self._drawn.append(numbers)
        self._tails = np.roll(self._tails, -1, axis=1)
        self._tails[: self._rows, -1] = numbers
        self._seen = min(self._seen + 1, self._tails.shape[1])
        self._box += open_ & (numbers == self._separator)

    def captions(self) -> list[Written]:
        """What was written, closed."""
        drawn = np.stack(self._drawn, axis=1) if self._drawn else np.zeros((self._rows, 0), np.uint16)
        made = []
        for row, template in enumerate(self._templates):
            texts = (self._start + self._model.alphabet.decode(drawn[row])).split(self._model.separator)
            boxes = (*texts, *[""] * template.boxes)[: template.boxes]
            score = float(np.exp(self._likelihood[row] / max(self._steps[row], 1)))
            made.append(Written(template, tuple(text.strip() for text in boxes), score))
        return made
