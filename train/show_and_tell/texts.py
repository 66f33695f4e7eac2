"""The captions of a split as words, and batches of them."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memeloom.train.show_and_tell.words import END, Words


@dataclass(frozen=True, slots=True)
class Texts:
    """Numbers of words, end to end: int32 (words,); `starts` says where each caption begins, int64 (captions + 1,).

    The end of each caption is one of its numbers, its start is not.
    """

    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str], words: Words) -> "Texts":
        """Captions in order."""
        numbers, starts = array("i"), array("q", [0])
        for text in texts:
            numbers.extend(words.encode(text))
            numbers.append(END)
            starts.append(len(numbers))
        return cls(np.array(numbers, np.int32), np.array(starts, np.int64))

    def __len__(self) -> int:
        """How many captions."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Numbers of each caption, the end counted, (captions,)."""
        return np.diff(self.starts)

    def rows(
        self, captions: NDArray[np.int64], longest: int, start: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Words to read, words that come next, and 1 where there is one: all (captions, longest).

        The first word read is `start`. Of a caption of more than `longest` numbers the rest is left out.
        """
        starts = self.starts[captions]
        lengths = np.minimum(self.starts[captions + 1] - starts, longest)
        there = np.arange(longest) < lengths[:, None]
        places = starts[:, None] + np.arange(longest)
        following = np.where(there, self.numbers[np.minimum(places, len(self.numbers) - 1)], END).astype(np.int32)
        begun = np.full((len(captions), 1), start, np.int32)
        return np.concatenate([begun, following[:, :-1]], axis=1), following, there.astype(np.float32)
