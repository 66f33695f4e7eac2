"""Batches of whole captions beside the vectors of their pictures."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.show_and_tell.texts import Texts
from memeloom.train.shuffle import shuffled

# (vectors, words to read), words that come next, and 1 where there is one.
_Batch: TypeAlias = tuple[tuple[NDArray[np.float32], NDArray[np.int32]], NDArray[np.int32], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Rows:
    """The captions of a split.

    vectors: of pictures, (pictures, size). pictures: the row of each caption's, int32 (captions,).
    start: the word that begins each caption. size: captions of a batch. longest: words of a caption, the end counted;
    more are left out.
    """

    texts: Texts
    vectors: NDArray[np.float16]
    pictures: NDArray[np.int32]
    start: int
    size: int
    longest: int
    seed: int

    def batch(self, step: int, noise: float) -> _Batch:
        """The captions of `step`, shuffled over all, pass after pass.

        noise: of a vector. To each of its numbers a Gaussian one is added whose standard deviation is this share of
            the standard deviation among the numbers of that vector; drawn anew for every caption and step.
        """
        places = np.arange(step * self.size, (step + 1) * self.size, dtype=np.int64)
        (vectors, read), following, there = self._of(shuffled(places, len(self.texts), self.seed))
        if noise:
            rng = np.random.default_rng([self.seed, step])
            spread = noise * vectors.std(axis=1, keepdims=True)
            vectors += spread * rng.standard_normal(vectors.shape, np.float32)
        return (vectors, read), following, there

    def one_pass(self, step: int) -> _Batch:
        """As `batch`, of one single pass and without noise: the last batch is smaller."""
        last = min((step + 1) * self.size, len(self.texts))
        places = np.arange(step * self.size, last, dtype=np.int64)
        return self._of(shuffled(places, len(self.texts), self.seed))

    def _of(self, captions: NDArray[np.int64]) -> _Batch:
        read, following, there = self.texts.rows(captions, self.longest, self.start)
        return (self.vectors[self.pictures[captions]].astype(np.float32), read), following, there
