"""Captions of pictures, written word by word: one turn of the decoder a word, for all rows."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import compiled, keras
from memeloom.train.show_and_tell.network import open_step
from memeloom.train.show_and_tell.words import UNKNOWN

# Up to so many rows every number of them has a step of its own, which is compiled when it is needed first.
_FEW = 8


class Turns(NamedTuple):
    """The decoder, compiled. show: vectors to what is seen of them. step: to logits and the new state."""

    show: Callable[[NDArray[np.float32]], Any]
    step: Callable[..., Any]
    units: int


def open_turns(network: Any) -> Turns:
    """The turns of a decoder."""
    show, step = (compiled(each, variables=network.variables) for each in open_step(network))
    return Turns(show, step, network.get_layer("memory").units)


class PictureSheet:
    """See `train.contract.Sheet`. The state of the decoder is all that a caption is to it."""

    def __init__(self, turns: Turns, vectors: NDArray[np.float32], start: int, begun: Sequence[Sequence[int]]) -> None:
        """`vectors` (rows, size) of the pictures; `begun`: the words that each caption has already."""
        self._turns = turns
        self._shown = _of_rows(turns.show, vectors)
        self._state = np.zeros((len(vectors), turns.units), np.float32)
        self._scores = np.zeros((len(vectors), 0), np.float32)
        rows = np.arange(len(vectors))
        self._turn(rows, np.full(len(rows), start))
        for place in range(max(map(len, begun))):
            longer = [row for row, words in enumerate(begun) if place < len(words)]
            self._turn(np.array(longer), np.array([begun[row][place] for row in longer]))

    def scores(self) -> NDArray[np.float32]:
        """As `Sheet`."""
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        """As `Sheet`."""
        self._turn(np.arange(len(tokens)), tokens)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """As `Sheet`."""
        self._shown, self._state, self._scores = self._shown[rows], self._state[rows], self._scores[rows]

    def _turn(self, rows: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        """Let these rows read a word each."""
        logits, state = _of_rows(self._turns.step, self._shown[rows], words.astype(np.int32), self._state[rows])
        scores = _log_probabilities(logits)
        if len(rows) == len(self._state):
            self._scores, self._state = scores, state
        else:
            self._scores[rows], self._state[rows] = scores, state


def _log_probabilities(logits: NDArray[Any]) -> NDArray[np.float32]:
    """Of the words that may be written; NumPy has them sooner than what the backends compile."""
    scores = logits.astype(np.float32)
    scores[:, UNKNOWN] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores


def _of_rows(function: Callable[..., Any], *arrays: NDArray[Any]) -> Any:
    """`function` of arrays with equally many rows, filled up so that it is compiled for a few numbers of rows only."""
    rows = len(arrays[0])
    size = rows if rows <= _FEW else 1 << (rows - 1).bit_length()
    filled = np.minimum(np.arange(size), rows - 1)
    found = function(*[array[filled] for array in arrays] if size > rows else arrays)
    # Cut as arrays: TensorFlow takes as long to cut its own as a turn takes.
    return keras.tree.map_structure(lambda each: np.array(keras.ops.convert_to_numpy(each)[:rows]), found)
