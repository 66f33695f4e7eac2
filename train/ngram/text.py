"""Concatenated captions, and the contexts of their characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.train.corpus import Captions, template_numbers
from memeloom.train.ngram.contexts import BASE, INVERSE, SECOND, THIRD, Contexts, Hashes, Spelling, powers


class Text:
    """Concatenated captions, and the hashes of stretches before any of their characters.

    characters: numbers from 1, uint16 (characters,). starts: offset of each caption and the end of the last, int64
    (captions + 1,). templates: number of each caption's template, (captions,); 0 is one that is unknown.
    spelling: which characters end words and boxes.
    """

    def __init__(
        self,
        characters: NDArray[np.uint16],
        starts: NDArray[np.int64],
        templates: NDArray[np.integer[Any]],
        spelling: "Spelling",
    ) -> None:
        self.characters, self.starts, self.templates, self.spelling = characters, starts, templates, spelling
        lengths = np.diff(starts)
        count = len(characters)
        self.caption = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        self.begin = np.repeat(starts[:-1].astype(np.int32), lengths)
        self._place = np.arange(count, dtype=np.int32) - self.begin
        longest = int(lengths.max(initial=0)) + 2
        self._powers, inverse = powers(BASE, longest), powers(INVERSE, longest)
        self._first = spelling.numbers[:1] * np.uint64(BASE)
        self._sums = np.zeros(count + 1, np.uint64)
        np.cumsum(spelling.numbers[characters] * inverse[self._place], dtype=np.uint64, out=self._sums[1:])
        self.word = np.maximum(self.begin, _after_last(spelling.spaces[characters]))

    def __len__(self) -> int:
        """Return the number of characters."""
        return len(self.characters)

    @property
    def stretches(self) -> "TextStretches":
        """The stretches before each character."""
        return TextStretches(self, np.arange(len(self), dtype=np.int32))

    def at(self, positions: NDArray[np.int32]) -> "TextStretches":
        """Return the stretches before the characters at `positions`."""
        return TextStretches(self, positions)

    def captions(self, rows: NDArray[np.integer[Any]]) -> "Text":
        """Return the captions `rows`, in this order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Text(self.characters[places], starts, self.templates[rows], self.spelling)

    def followed_by(self, other: "Text") -> "Text":
        """Return these captions and then those of `other`."""
        return Text(
            np.concatenate([self.characters, other.characters]),
            np.concatenate([self.starts, self.starts[-1] + other.starts[1:]]),
            np.concatenate([self.templates, other.templates]),
            self.spelling,
        )

    def blocks(self, characters: int) -> Iterator[tuple[NDArray[np.int64], "Text"]]:
        """Yield blocks of captions in order, each of about `characters` characters: their rows, and their text."""
        first = 0
        while first < len(self.templates):
            last = int(np.searchsorted(self.starts, self.starts[first] + characters, side="right")) - 1
            rows = np.arange(first, min(max(last, first + 1), len(self.templates)))
            yield rows, self.captions(rows)
            first = int(rows[-1]) + 1

    def hashed(self, since: NDArray[np.int32], positions: NDArray[np.int32]) -> Hashes:
        """Return the hashes of the stretches from `since` to before `positions`."""
        value: Hashes = (self._sums[positions] - self._sums[since]) * self._powers[self._place[positions]]
        return value

    def begun(self, positions: NDArray[np.int32]) -> Hashes:
        """Return what the start of the caption adds to the hash of a stretch that holds it."""
        value: Hashes = self._first * self._powers[self._place[positions]]
        return value


def text_of(captions: Captions, learned: Sequence[int], spelling: Spelling) -> Text:
    """Return captions to count. learned: rows of the templates with training captions; others are unknown."""
    return Text(captions.characters, captions.starts, template_numbers(captions.templates, learned), spelling)


@dataclass(frozen=True, slots=True)
class TextStretches:
    """The `Stretches` of positions in a text."""

    text: Text
    positions: NDArray[np.int32]

    def values(self, contexts: Contexts) -> Hashes:
        found = np.empty((len(contexts), len(self.positions)), np.uint64)
        for row, (characters, suffix, words) in enumerate(
            zip(contexts.characters.tolist(), contexts.suffix.tolist(), contexts.words.tolist(), strict=True)
        ):
            found[row] = self._words(words) if words else self._suffix(suffix) if suffix else self._last(characters)
        return found

    def _last(self, most: int) -> Hashes:
        text, at = self.text, self.positions
        begin = text.begin[at]
        since = np.maximum(at - most, begin).astype(np.int32)
        value = text.hashed(since, at)
        clipped = at - begin < most
        value[clipped] += text.begun(at[clipped])
        return value

    def _suffix(self, most: int) -> Hashes:
        text, at = self.text, self.positions
        return text.hashed(np.maximum(at - most, text.word[at]).astype(np.int32), at)

    def _words(self, count: int) -> Hashes:
        text, at = self.text, self.positions
        begin, since = text.begin[at], text.word[at]
        value = text.hashed(since, at)
        for factor in (SECOND, THIRD)[: count - 1]:
            # The position of the space before a word: where the word before it ends.
            at = np.maximum(since - 1, begin)
            since = np.where(since > begin, text.word[at], begin)
            value = value + text.hashed(since, at) * factor
        return value

    @property
    def template(self) -> Hashes:
        return self.text.templates[self.text.caption[self.positions]].astype(np.uint64)


def _after_last(found: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return, for each place, the index after the last True before it, or 0; (places,)."""
    after = np.where(found, np.arange(1, len(found) + 1, dtype=np.int32), np.int32(0))
    return np.concatenate([np.zeros(1, np.int32), np.maximum.accumulate(after)[:-1]])
