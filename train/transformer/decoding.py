"""Decoding with the transformer, character by character, through a cache of keys and values."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras, padded_rows

ops = keras.ops
# The cache grows by this many characters, to compile few shapes.
_ROOM = 64


class Steps(NamedTuple):
    """The compiled methods `read` and `step` of a `memeloom.train.transformer.network.Transformer`."""

    read: Callable[..., Any]
    step: Callable[..., Any]


class TransformerState:
    """See `memeloom.train.contract.DecodingState`: one call of the step per character for all rows.

    templates: number of each row's template vector. texts: characters of each row's prefix and start text, never empty.
    """

    def __init__(self, steps: Steps, templates: NDArray[np.int64], texts: Sequence[NDArray[np.uint16]]) -> None:
        self._steps, self._templates = steps, templates.astype(np.int32)
        lengths = np.array([len(text) for text in texts], np.int32)
        characters = np.zeros((len(texts), -(-int(lengths.max()) // _ROOM) * _ROOM), np.int32)
        for row, text in enumerate(texts):
            characters[row, : len(text)] = text
        # The last character of each row is read by the step.
        self._places = lengths - 1
        self._last = characters[np.arange(len(texts)), self._places]
        rows = padded_rows(len(texts))
        self._keys, self._values = steps.read(characters[rows], self._templates[rows])
        self._scores: NDArray[np.float32] | None = None

    def log_probs(self) -> NDArray[np.float32]:
        if self._scores is None:
            rows = padded_rows(len(self._last))
            given = (each[rows] for each in (self._last, self._templates, self._places))
            found, self._keys, self._values = self._steps.step(*given, self._keys, self._values)
            self._scores = np.asarray(found)[: len(self._last)]
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        self.log_probs()
        self._last, self._places, self._scores = (tokens + 1).astype(np.int32), self._places + 1, None
        if self._places.max() >= self._keys.shape[2]:
            room = ((0, 0), (0, 0), (0, _ROOM), (0, 0), (0, 0))
            self._keys, self._values = (ops.pad(each, room) for each in (self._keys, self._values))

    def select(self, rows: NDArray[np.int64]) -> None:
        if len(rows) == len(self._last) and (rows == np.arange(len(rows))).all():
            return
        held = rows[padded_rows(len(rows))]
        self._keys, self._values = (ops.take(each, held, axis=0) for each in (self._keys, self._values))
        self._last, self._templates, self._places = (each[rows] for each in (self._last, self._templates, self._places))
        self._scores = None if self._scores is None else self._scores[rows]
