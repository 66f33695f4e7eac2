"""Batches of packed captions, with what counting knows of each character."""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.causal.decoding import MOST_BOXES, READS
from memeloom.train.causal.estimates import Estimator
from memeloom.train.corpus import UNKNOWN_TEMPLATE
from memeloom.train.ngram.text import Text
from memeloom.train.packed_rows import PackedRows

# Maximum number of captions, and number of picture vectors, of a row with pictures.
_CAPTIONS_A_ROW: Final = 16

Packed: TypeAlias = tuple[tuple[NDArray[Any], ...], NDArray[np.int32], NDArray[np.float32]]


class CaptionPictures(NamedTuple):
    """The pictures of captions. vectors: (pictures, size). rows: the vector of each caption, int32 (captions,)."""

    vectors: NDArray[np.float16]
    rows: NDArray[np.int32]

    def and_templates(self, templates: NDArray[np.float32], rows: NDArray[np.int32]) -> "CaptionPictures":
        """Return these pictures, followed by those of captions that see a template: its row in `templates`."""
        if not len(rows):
            return self
        vectors = np.concatenate([self.vectors, templates.astype(np.float16)])
        return CaptionPictures(vectors, np.concatenate([self.rows, rows + np.int32(len(self.vectors))]))


class PackedBatches:
    """The batches of captions.

    text: the captions, their templates as the network numbers them. rows, length: shape of a batch. Captions longer
    than a row are truncated. unknown: share of captions whose template is masked, to train the vector of unknown
    templates. shown: the pictures of the captions, for a network that uses them. importance: weight of each caption,
    (captions,); None is 1.
    """

    def __init__(
        self,
        text: Text,
        estimate: Estimator,
        *,
        rows: int,
        length: int,
        seed: int,
        unknown: float,
        shown: CaptionPictures | None = None,
        importance: NDArray[np.float32] | None = None,
    ) -> None:
        self._text, self._estimate = text, estimate
        self._shape, self._seed, self._unknown, self._shown = (rows, length), seed, unknown, shown
        self._importance = importance
        self._sizes = np.minimum(np.diff(text.starts), length)
        most = None if shown is None else _CAPTIONS_A_ROW
        self._packed = PackedRows(
            lambda _: self._sizes, len(self._sizes), rows=rows, length=length, seed=seed, most=most
        )

    @property
    def steps(self) -> int:
        """Number of batches in the first pass; other passes have nearly as many."""
        return self._packed.steps

    @property
    def characters(self) -> int:
        """Mean number of characters in a batch."""
        return int(self._sizes.sum()) // self.steps

    def batch(self, step: int) -> Packed:
        """Return the inputs of the network, labels and weights (rows, length).

        Inputs: see `memeloom.train.causal.network.Networks`. labels: characters, numbered from 0.
        """
        _, chosen, rows = self._packed.at(step)
        templates = self._text.templates[chosen]
        if self._unknown:
            hidden = np.random.default_rng([self._seed, step]).random(len(chosen)) < self._unknown
            templates = np.where(hidden, UNKNOWN_TEMPLATE, templates)
        inputs, labels, weights = fill(self._text, self._estimate, chosen, rows, templates, self._shape)
        if self._importance is not None:
            # Captions lie in order, row by row.
            weights[weights > 0] = np.repeat(self._importance[chosen], self._sizes[chosen])
        pictures = [] if self._shown is None else [self._pictures(self._shown, chosen, rows)]
        return (*inputs, *pictures), labels, weights

    def _pictures(
        self, shown: CaptionPictures, chosen: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        vectors = np.zeros((self._shape[0], _CAPTIONS_A_ROW, shown.vectors.shape[1]), np.float32)
        vectors[rows, np.arange(len(rows)) - np.searchsorted(rows, rows)] = shown.vectors[shown.rows[chosen]]
        return vectors


def fill(
    text: Text,
    estimate: Estimator,
    chosen: NDArray[np.int64],
    rows: NDArray[np.int64],
    templates: NDArray[np.integer[Any]],
    shape: tuple[int, int],
) -> Packed:
    """Return a batch of the captions `chosen`, packed in order into their `rows`.

    rows: ascending. templates: each caption's template number. shape: rows, length.
    """
    length, places = shape[1], shape[0] * shape[1]
    own = text.captions(chosen)
    own.templates = templates
    estimates = estimate(own, chosen)
    inside = np.arange(len(own)) - own.begin
    sizes = np.minimum(np.diff(own.starts), length)
    starts = np.cumsum(sizes) - sizes
    row_starts = starts - np.maximum.accumulate(np.where(np.diff(rows, prepend=-1) > 0, starts, 0))
    kept = inside < length
    at = ((rows * length + row_starts)[own.caption] + inside)[kept]
    characters = own.characters.astype(np.int32)
    chains, _, symbols = estimates.probabilities.shape
    reads = np.zeros((places, len(READS) + chains), np.int32)
    columns = (np.where(inside, np.roll(characters, 1), 0), templates[own.caption], _boxes(own), *estimates.depth)
    for number, column in enumerate(columns):
        reads[at, number] = column[kept]
    logs = np.zeros((places, chains, symbols), np.float32)
    logs[at] = np.log(estimates.probabilities).swapaxes(0, 1)[kept]
    begins = np.ones(places, np.float32)
    begins[at] = inside[kept] == 0
    labels = np.zeros(places, np.int32)
    labels[at] = characters[kept] - 1
    weights = np.zeros(places, np.float32)
    weights[at] = 1
    inputs = reads.reshape(*shape, -1), begins.reshape(shape), logs.reshape(*shape, chains, symbols)
    return inputs, labels.reshape(shape), weights.reshape(shape)


def _boxes(text: Text) -> NDArray[np.int64]:
    """Return the index of each character's box: the separators before it in its caption, at most `MOST_BOXES` - 1."""
    closed = np.zeros(len(text) + 1, np.int64)
    np.cumsum(text.characters == text.spelling.separator, out=closed[1:])
    boxes: NDArray[np.int64] = np.minimum(closed[:-1] - closed[text.begin], MOST_BOXES - 1)
    return boxes
