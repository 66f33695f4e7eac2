"""Which captions stand in training, word for word or but for one word."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ranking.words import Text, folded_words, hash_text

# Shorter captions that differ in one word may be different jokes in a template's own phrase.
_FEWEST_WORDS: Final = 6
NEW, NEAR, VERBATIM = 0, 1, 2
_VERBATIM, _NEAR = "verbatim", "near"


class Novelty:
    """Hashes of the training captions, folded: lower case, no punctuation, no boxes.

    verbatim: of whole captions, sorted, uint64. near: 32 bits of captions with one word left out, and whole, sorted:
    two captions that differ in one word are equal without it.
    """

    def __init__(self, verbatim: NDArray[np.uint64], near: NDArray[np.uint32]) -> None:
        self._verbatim, self._near = verbatim, near

    @classmethod
    def of(cls, texts: Iterable[Text]) -> "Novelty":
        """Return the index of captions."""
        whole: set[int] = set()
        near: set[int] = set()
        for text in texts:
            words = folded_words(text.boxes)
            number = hash_text(" ".join(words))
            if number not in whole:
                whole.add(number)
                near.update(_variants(words))
        return cls(_sorted(whole, np.uint64), _sorted(near, np.uint32))

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> "Novelty":
        """Return the index in `arrays`. Raises KeyError, ValueError."""
        verbatim, near = arrays[_VERBATIM], arrays[_NEAR]
        if verbatim.dtype != np.uint64 or near.dtype != np.uint32 or verbatim.ndim != 1 or near.ndim != 1:
            raise ValueError("the index of captions is not what it should be")
        return cls(verbatim, near)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `restored` needs."""
        return {_VERBATIM: self._verbatim, _NEAR: self._near}

    def levels(self, texts: Sequence[Text]) -> NDArray[np.int64]:
        """Return `VERBATIM`, `NEAR` (one word other, more or fewer) or `NEW` for each caption, (captions,)."""
        return np.array([self._level(folded_words(text.boxes)) for text in texts], np.int64)

    def _level(self, words: Sequence[str]) -> int:
        if _has(self._verbatim, np.array([hash_text(" ".join(words))], np.uint64)):
            return VERBATIM
        variants = np.array(sorted(_variants(words)), np.uint32)
        return NEAR if _has(self._near, variants) else NEW


def _variants(words: Sequence[str]) -> set[int]:
    if len(words) < _FEWEST_WORDS:
        return set()
    shorter = (" ".join([*words[:at], *words[at + 1 :]]) for at in range(len(words)))
    return {hash_text(each) % 2**32 for each in (" ".join(words), *shorter)}


def _sorted(numbers: set[int], kind: Any) -> NDArray[Any]:
    return np.sort(np.fromiter(numbers, kind, len(numbers)))


def _has(index: NDArray[Any], wanted: NDArray[Any]) -> bool:
    at = np.minimum(np.searchsorted(index, wanted), max(len(index) - 1, 0))
    return bool(len(index) and (index[at] == wanted).any())
