"""What the captions that are estimated have themselves in the counts, level by level."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ngram.contexts import SYMBOL_BITS, Hashes
from memeloom.train.ngram.levels import Entries
from memeloom.train.ngram.text import Text

# A caption has its number in the low bits of its contexts' hashes.
MOST_CAPTIONS: Final = 1 << SYMBOL_BITS


class LeftOut:
    """Takes the counts of each caption off those that its own characters see.

    `taken` is called for each level in turn, the most specific first.

    text: at most `MOST_CAPTIONS`. found: hash of each position's context, by level. values: its index among those that
    were counted, or -1. characters: size of the alphabet.
    """

    def __init__(
        self, text: Text, found: Sequence[Hashes], values: Sequence[NDArray[np.int64]], characters: int
    ) -> None:
        if len(text.templates) > MOST_CAPTIONS:
            raise ValueError(f"more than {MOST_CAPTIONS} captions at once")
        self._found, self._values, self._characters = found, values, characters
        self._caption = text.caption.astype(np.uint64)
        self._symbols = text.characters.astype(np.int64) - 1
        # Places that count at the next level, and how often.
        self._places = np.arange(len(text))
        self._weights = np.ones(len(text), np.float32)
        # What the caption of each context has itself, and what all captions have: (contexts + 1, characters) and
        # (positions, characters), valid where the level has entries.
        self._own = np.zeros((len(text) + 1) * characters, np.float32)
        self._all = np.zeros(len(text) * characters, np.float32)
        self._begun = len(found)

    def changed(self, number: int) -> NDArray[np.bool_]:
        """Return True for each position whose context at this level, the next, or at a more general one loses counts.

        Of the more general ones only those that nothing more specific counts; see `Chain.count`.
        """
        self._begin(number)
        changed: NDArray[np.bool_] = self._group < len(self._groups)
        changed[self._places[~self._counted]] = True
        return changed

    def taken(self, number: int, entries: Entries) -> Entries:
        """Return the entries of this level, the next, with lower counts, perhaps 0."""
        self._begin(number)
        characters, places = self._characters, self._places[self._counted]
        own, first, item = np.unique(
            self._group[places] * characters + self._symbols[places], return_index=True, return_inverse=True
        )
        times = np.bincount(item, self._weights[self._counted], len(own))
        self._own[own] = times
        self._all[entries.row * characters + entries.symbol] = entries.times
        left = entries.times - self._own[self._group[entries.row] * characters + entries.symbol]
        self._own[own] = 0
        # An entry that only this caption has is missing in the more general context.
        places = places[first]
        total = self._all[places * characters + self._symbols[places]]
        forgotten = self._values[number][places] < 0
        gone = places[forgotten | (times >= total)]
        same = self._places[~self._counted]
        self._weights = np.concatenate([np.ones(len(gone), np.float32), self._weights[~self._counted]])
        self._places = np.concatenate([gone, same])
        return entries._replace(times=left)

    def _begin(self, number: int) -> None:
        """Group the positions of each caption that share a context which loses counts at this level."""
        if self._begun == number:
            return
        self._begun = number
        hashed, places = self._found[number], self._places
        general = self._found[number - 1] if number else np.zeros_like(hashed)
        self._counted = hashed[places] != general[places]
        contexts = hashed | self._caption
        self._groups = np.unique(contexts[places[self._counted]])
        at = np.searchsorted(self._groups, contexts)
        known = np.append(self._groups, np.uint64(0))[at] == contexts
        self._group = np.where(known, at, len(self._groups))
