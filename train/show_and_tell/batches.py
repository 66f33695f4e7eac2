"""Batches of whole captions with the vectors of their pictures."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.corpus import shuffled
from memeloom.train.show_and_tell.words import END, Words

# (vectors, input words), next words, weights.
_Batch: TypeAlias = tuple[tuple[NDArray[np.float32], NDArray[np.int32]], NDArray[np.int32], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Texts:
    """Concatenated captions as word numbers, int32 (words,), and their `starts`, int64 (captions + 1,).

    Captions include the end token, but not the start token.
    """

    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str], words: Words) -> "Texts":
        """Encode captions in order."""
        numbers, starts = array("i"), array("q", [0])
        for text in texts:
            numbers.extend(words.encode(text))
            numbers.append(END)
            starts.append(len(numbers))
        return cls(np.array(numbers, np.int32), np.array(starts, np.int64))

    def __len__(self) -> int:
        """Return the number of captions."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of each caption, including the end token, (captions,)."""
        return np.diff(self.starts)

    def rows(
        self, captions: NDArray[np.int64], longest: int, start: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Return input words, next words, and weights, 1 for words and 0 for padding: all (captions, longest).

        The first input word is `start`. Longer captions are truncated.
        """
        starts = self.starts[captions]
        lengths = np.minimum(self.starts[captions + 1] - starts, longest)
        weights = np.arange(longest) < lengths[:, None]
        places = starts[:, None] + np.arange(longest)
        labels = np.where(weights, self.numbers[np.minimum(places, len(self.numbers) - 1)], END).astype(np.int32)
        begun = np.full((len(captions), 1), start, np.int32)
        return np.concatenate([begun, labels[:, :-1]], axis=1), labels, weights.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Rows:
    """The captions of a split.

    vectors: of pictures, (pictures, size). pictures: the vector of each caption, int32 (captions,).
    start: the start token. size: captions per batch. longest: maximum words of a caption.
    """

    texts: Texts
    vectors: NDArray[np.float16]
    pictures: NDArray[np.int32]
    start: int
    size: int
    longest: int
    seed: int

    def batch(self, step: int, noise: float) -> _Batch:
        """Return the batch of `step`; every pass is shuffled anew.

        noise: standard deviation of the Gaussian noise on each vector, relative to the vector's own standard deviation.
        """
        places = np.arange(step * self.size, (step + 1) * self.size, dtype=np.int64)
        (vectors, inputs), labels, weights = self._of(shuffled(places, len(self.texts), self.seed))
        if noise:
            rng = np.random.default_rng([self.seed, step])
            spread = noise * vectors.std(axis=1, keepdims=True)
            vectors += spread * rng.standard_normal(vectors.shape, np.float32)
        return (vectors, inputs), labels, weights

    def one_pass(self, step: int) -> _Batch:
        """Return the batch of `step` of a single pass without noise; the last batch is smaller."""
        last = min((step + 1) * self.size, len(self.texts))
        places = np.arange(step * self.size, last, dtype=np.int64)
        return self._of(shuffled(places, len(self.texts), self.seed))

    def _of(self, captions: NDArray[np.int64]) -> _Batch:
        inputs, labels, weights = self.texts.rows(captions, self.longest, self.start)
        return (self.vectors[self.pictures[captions]].astype(np.float32), inputs), labels, weights
