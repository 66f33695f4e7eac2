"""What followed the beginning of the current word earlier in the caption, or in the name of its template.

A further estimate beside those of the counts: captions repeat words, and those of a template that was not learned
often say words of its name (Kuhn and De Mori, "A Cache-Based Natural Language Model for Speech Recognition", 1990).
"""

from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import Hashes
from memeloom.train.ngram.state import ContextState
from memeloom.train.ngram.table import Estimates, Floats
from memeloom.train.ngram.text import Text

# The depths of the estimate: letters of the word so far, this many and more alike; 0 where nothing is recalled.
DEPTHS: Final = 5
# The probability of all other characters together.
_REST: Final = np.float32(0.1)


def recalled(text: Text, names: Sequence[NDArray[np.uint16]]) -> Estimates:
    """Return the estimate of every position of `text`, of one chain.

    names: characters of the name of each caption's template, a space after the last word.
    """
    lengths, before = np.diff(text.starts), np.array([len(name) for name in names])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(before + lengths)])
    own = np.repeat(starts[:-1] + before - text.starts[:-1], lengths) + np.arange(len(text))
    characters = np.empty(starts[-1], np.uint16)
    characters[own] = text.characters
    in_name = np.ones(len(characters), np.bool_)
    in_name[own] = False
    characters[in_name] = np.concatenate([*names, np.zeros(0, np.uint16)])
    whole = Text(characters, starts, text.templates, text.spelling)
    places = np.arange(len(whole), dtype=np.int32)
    words, size = whole.hashed(whole.word, places), places - whole.word
    # Positions of one caption after equal beginnings of words lie side by side, in their order.
    order = np.lexsort((places, words, whole.caption))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(whole.caption[order]) != 0) | (words[order][1:] != words[order][:-1])
    seen = np.zeros((len(order) + 1, text.spelling.characters), np.float32)
    seen[np.arange(1, len(order) + 1), characters[order].astype(np.int64) - 1] = 1
    np.cumsum(seen, axis=0, out=seen)
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    counts = np.empty((len(order), text.spelling.characters), np.float32)
    counts[order] = seen[:-1] - seen[first]
    return _estimates(counts[own], size[own].astype(np.int64))


class Recall:
    """The estimate in decoding, of unfinished captions, a row each.

    words: hash of the word before each character read, 0 for those of no word, (rows, read). characters: read, from 1,
    0 for none, (rows, read).
    """

    def __init__(self, words: Hashes, characters: NDArray[np.int64]) -> None:
        self._words, self._characters = words, characters

    @classmethod
    def begin(cls, names: Sequence[NDArray[np.uint16]], contexts: ContextState) -> Self:
        """Return the state after the names of the rows' templates. contexts: of empty captions."""
        rows, longest = len(names), max(map(len, names), default=0)
        state = cls(np.zeros((rows, 0), np.uint64), np.zeros((rows, 0), np.int64))
        for at in range(longest):
            there = np.array([at < len(name) for name in names])
            read = np.array([int(name[at]) if at < len(name) else 1 for name in names])
            state.read(read, contexts, there)
            contexts = contexts.replaced(there, contexts.read(read))
        return state

    def estimate(self, contexts: ContextState) -> Estimates:
        """Return the estimate of the next characters."""
        rows, characters = len(self._words), contexts.spelling.characters
        row, at = np.nonzero((self._words == contexts.word[:, np.newaxis]) & (self._characters > 0))
        cells = row * characters + self._characters[row, at] - 1
        counts = np.bincount(cells, minlength=rows * characters).reshape(rows, characters)
        return _estimates(counts.astype(np.float32), contexts.length)

    def read(self, characters: NDArray[np.int64], contexts: ContextState, there: NDArray[np.bool_]) -> None:
        """Read a character in the rows that are `there`. contexts: before it."""
        self._words = np.concatenate([self._words, contexts.word[:, np.newaxis]], axis=1)
        read = np.where(there, characters, 0)
        self._characters = np.concatenate([self._characters, read[:, np.newaxis]], axis=1)

    def select(self, rows: NDArray[np.int64]) -> None:
        """Continue with these rows in this order."""
        self._words, self._characters = self._words[rows], self._characters[rows]


def _estimates(counts: Floats, size: NDArray[np.int64]) -> Estimates:
    """Return the estimate by counts (positions, characters). size: letters of the word so far."""
    total = counts.sum(axis=1)
    known = (total > 0) & (size > 0)
    share = np.where(known, (1 - _REST) / np.maximum(total, 1), 0).astype(np.float32)
    rest = np.where(known, _REST, np.float32(1)) / np.float32(counts.shape[1])
    made = counts * share[:, np.newaxis] + rest[:, np.newaxis].astype(np.float32)
    return Estimates(made[np.newaxis], np.where(known, np.minimum(size, DEPTHS - 1), 0)[np.newaxis])


def joined(counted: Estimates, remembered: Estimates) -> Estimates:
    """Return the estimates of all chains."""
    return Estimates(
        np.concatenate([counted.probabilities, remembered.probabilities]),
        np.concatenate([counted.depth, remembered.depth]),
    )
