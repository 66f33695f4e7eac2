"""The contexts of unfinished captions in decoding, updated by one character per row."""

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import BASE, LONGEST, SECOND, THIRD, Contexts, Hashes, Spelling, powers

_POWERS: Final = powers(BASE, LONGEST + 1)[1:, np.newaxis]


@dataclass(frozen=True, slots=True)
class ContextState:
    """The `Stretches` of unfinished captions, a row each, in decoding.

    last: the last characters, latest first, then the start (0) and none, (LONGEST, rows). word, before, before_that:
    hashes of the current word so far and of those before it. length: of the current word. template: number.
    """

    spelling: Spelling
    last: NDArray[np.intp]
    word: Hashes
    before: Hashes
    before_that: Hashes
    length: NDArray[np.int64]
    template: Hashes
    _sums: Hashes

    @classmethod
    def begin(cls, templates: NDArray[np.integer[Any]], spelling: Spelling) -> "ContextState":
        """Return the state of empty captions. templates: numbers, (rows,)."""
        rows = len(templates)
        last = np.full((LONGEST, rows), spelling.characters + 1)
        last[0] = 0
        none = np.zeros(rows, np.uint64)
        length = np.zeros(rows, np.int64)
        sums = _sums(last, spelling)
        return cls(spelling, last, none, none, none, length, templates.astype(np.uint64), sums)

    def read(self, characters: NDArray[np.integer[Any]]) -> "ContextState":
        """Return the state after one more character per row, numbers from 1, (rows,)."""
        spelling = self.spelling
        ends = spelling.spaces[characters]
        last = np.concatenate([characters[np.newaxis], self.last[:-1]])
        return ContextState(
            spelling,
            last,
            word=np.where(ends, 0, (self.word + spelling.numbers[characters]) * np.uint64(BASE)).astype(np.uint64),
            before=np.where(ends, self.word, self.before),
            before_that=np.where(ends, self.before, self.before_that),
            length=np.where(ends, 0, self.length + 1),
            template=self.template,
            _sums=_sums(last, spelling),
        )

    def replaced(self, there: NDArray[np.bool_], other: "ContextState") -> "ContextState":
        """Return the state with the rows of `other` where `there` is True."""
        pairs = zip(_columns(self), _columns(other), strict=True)
        return ContextState(self.spelling, *(np.where(there, its, mine) for mine, its in pairs))

    def select(self, rows: NDArray[np.int64]) -> "ContextState":
        """Return these rows in this order."""
        return ContextState(self.spelling, *(column[..., rows] for column in _columns(self)))

    def values(self, contexts: Contexts) -> Hashes:
        words = [self.word]
        for word, factor in ((self.before, SECOND), (self.before_that, THIRD)):
            words.append(words[-1] + word * factor)
        # A suffix is no longer than its word.
        most = np.where(
            contexts.suffix[:, np.newaxis] > 0,
            np.minimum(contexts.suffix[:, np.newaxis], self.length),
            contexts.characters[:, np.newaxis],
        )
        values: Hashes = np.take_along_axis(self._sums, most, axis=0)
        of_words = np.flatnonzero(contexts.words)
        values[of_words] = np.stack(words)[contexts.words[of_words] - 1]
        return values


def _sums(last: NDArray[np.intp], spelling: Spelling) -> Hashes:
    """Return the hashes of the last 0 … `LONGEST` characters, (LONGEST + 1, rows)."""
    sums = np.zeros((len(last) + 1, last.shape[1]), np.uint64)
    np.cumsum(spelling.numbers[last] * _POWERS, axis=0, dtype=np.uint64, out=sums[1:])
    return sums


def _columns(state: ContextState) -> list[NDArray[Any]]:
    return [getattr(state, column.name) for column in fields(state)[1:]]
