"""Hashed n-gram features: each character has sixteen contexts, and each context is a row of an embedding table.

After Mikolov et al., "Strategies for Training Large Scale Neural Network Language Models", 2011. Training computes the
rows of all characters at once; decoding updates a `ContextState`. Both give the same rows; no row depends on the next
character. The hash is polynomial, mod 2^32: H(text + c) = (H(text) + r(c)) · B, with r(c) pseudo-random.
"""

from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet

Hashes = NDArray[np.uint32]
BASE = np.uint32(0x01000193)
_INVERSE = np.uint32(pow(0x01000193, -1, 2**32))
_FIFTEEN = np.uint32(15)
SPREAD, MIX, LAST = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
ORDERS = 7
FARTHEST = 63
# The row of dropped contexts; its vector stays zero.
NULL_ROW = 0
# Hash bits of contexts with few values (counted in 166,723 captions); the others use `bits`.
_FEW = {
    "characters 2": 12, "characters 3": 16, "characters 4": 17, "template": 12, "template, place": 14, "word": 17,
}  # fmt: skip
NAMES = (
    "characters 1", "characters 2", "characters 3", "characters 4", "characters 5", "characters 6", "characters 7",
    "template", "template, characters 3", "template, characters 5", "word", "2 words", "3 words", "template, box",
    "template, word", "template, place",
)  # fmt: skip
_COLUMNS = np.arange(1, len(NAMES), dtype=np.uint32)[:, np.newaxis]


@dataclass(slots=True)
class ContextState:
    """The contexts of unfinished captions, one per row, uint32 (rows,) each.

    last: the last seven characters, latest first, (7, rows), padded with 0. word, word_before, word_before_that: hashes
    of the current word and of the two before it. box: hash of the current box. place: number of characters in it.
    number: its index. template: 1 + row of the template, or `UNKNOWN_TEMPLATE`.
    """

    last: Hashes
    word: Hashes
    word_before: Hashes
    word_before_that: Hashes
    box: Hashes
    place: Hashes
    number: Hashes
    template: Hashes

    @classmethod
    def begin(cls, templates: NDArray[np.int64]) -> "ContextState":
        """Return the state of empty captions. templates: (rows,)."""
        rows = len(templates)
        none = np.zeros(rows, np.uint32)
        return cls(np.zeros((ORDERS, rows), np.uint32), none, none, none, none, none, none, templates.astype(np.uint32))

    def read(self, characters: NDArray[np.int64], spaces: NDArray[np.bool_], separator: int) -> "ContextState":
        """Return the state after one more character per row, (rows,). spaces: True for characters that end a word."""
        read = characters.astype(np.uint32)
        ends, closes = spaces[characters], characters == separator
        number = random_numbers(read)
        return ContextState(
            last=np.concatenate([read[None], self.last[:-1]]),
            word=np.where(ends, 0, (self.word + number) * BASE).astype(np.uint32),
            word_before=np.where(ends, self.word, self.word_before),
            word_before_that=np.where(ends, self.word_before, self.word_before_that),
            box=np.where(closes, 0, (self.box + number) * BASE).astype(np.uint32),
            place=np.where(closes, 0, self.place + 1).astype(np.uint32),
            number=self.number + closes.astype(np.uint32),
            template=self.template,
        )

    def replaced(self, there: NDArray[np.bool_], other: "ContextState") -> "ContextState":
        """Return the state with the rows of `other` where `there` is True."""
        return ContextState(
            *(np.where(there, mine, its) for mine, its in zip(_columns(other), _columns(self), strict=True))
        )

    def select(self, rows: NDArray[np.int64]) -> "ContextState":
        """Return these rows in this order."""
        return ContextState(*(column[..., rows] for column in _columns(self)))


def _columns(reading: ContextState) -> list[Hashes]:
    return [getattr(reading, field.name) for field in fields(reading)]


def read_all(
    characters: NDArray[np.int64],
    starts: NDArray[np.int64],
    templates: NDArray[np.int64],
    spaces: NDArray[np.bool_],
    separator: int,
) -> ContextState:
    """Return the state before each character of concatenated captions, (characters,).

    starts: offset of each caption, ascending from 0, (captions,). templates: template of each caption.
    """
    count = len(characters)
    caption = np.zeros(count, np.int64)
    caption[starts[1:]] = 1
    caption = np.cumsum(caption)
    begin = starts[caption]
    at = np.arange(count)
    read = characters.astype(np.uint32)
    last = np.zeros((ORDERS, count), np.uint32)
    for back in range(1, ORDERS + 1):
        last[back - 1, back:] = read[:-back]
        last[back - 1, at - begin < back] = 0
    powers = np.multiply.accumulate(np.concatenate([[np.uint32(1)], np.full(count, BASE)]), dtype=np.uint32)
    inverse = np.multiply.accumulate(np.concatenate([[np.uint32(1)], np.full(count - 1, _INVERSE)]), dtype=np.uint32)
    # Prefix sums: the hash of a range is a difference.
    sums = np.concatenate([[np.uint32(0)], np.cumsum(random_numbers(read) * inverse, dtype=np.uint32)])[:-1]
    ends, closes = spaces[characters], characters == separator
    word_begin, box_begin = (np.maximum(begin, _after_last(found)) for found in (ends, closes))

    def hashed(since: NDArray[np.int64]) -> Hashes:
        values: Hashes = (sums - sums[since]) * powers[:-1]
        return values

    word = hashed(word_begin)
    before = np.where(word_begin > begin, word[word_begin - 1], 0).astype(np.uint32)
    boxes = np.concatenate([[0], np.cumsum(closes)])[:-1]
    return ContextState(
        last=last,
        word=word,
        word_before=before,
        word_before_that=np.where(word_begin > begin, before[word_begin - 1], 0).astype(np.uint32),
        box=hashed(box_begin),
        place=(at - box_begin).astype(np.uint32),
        number=(boxes - boxes[begin]).astype(np.uint32),
        template=templates[caption].astype(np.uint32),
    )


def table_rows(bits: int, characters: int) -> int:
    """Return the number of rows of a table with `bits` per context and this many characters."""
    return characters + 2 + sum(1 << min(_FEW.get(name, bits), bits) for name in NAMES[1:])


def context_rows(reading: ContextState, bits: int, characters: int) -> NDArray[np.int32]:
    """Return the table row of every context, (rows, 16); each context has its own part of the table."""
    # One array is filled, in the order of `NAMES`: a step of one caption takes as long as NumPy's calls do.
    last, contexts = reading.last, np.empty((len(_COLUMNS), len(reading.word)), np.uint32)
    value = np.zeros_like(reading.word)
    third = value
    for back, character in enumerate(last + np.uint32(1)):
        # As `_mixed`.
        value = value * SPREAD
        value += character
        value *= MIX
        value ^= value >> _FIFTEEN
        if back:
            contexts[back - 1] = value
        if back == 2:
            third = value
    template = _mixed(reading.template, reading.number)
    contexts[6], contexts[7], contexts[8], contexts[9] = template, third, contexts[3], reading.word
    contexts[10] = _mixed(reading.word, reading.word_before)
    contexts[11] = _mixed(contexts[10], reading.word_before_that)
    contexts[12], contexts[13] = reading.box, reading.word
    np.minimum(reading.place, FARTHEST, out=contexts[14])
    for on_template in (contexts[7:9], contexts[12:]):
        on_template[:] = _mixed(on_template, template)
    away, first = parts(bits)
    rows = np.empty((len(value), len(NAMES)), np.int32)
    np.add(last[0], 1, out=rows[:, 0], casting="unsafe")
    hashed = _mixed(contexts, _COLUMNS)
    hashed *= LAST
    hashed >>= away
    np.add(hashed.view(np.int32), first + np.int32(characters + 2), out=rows[:, 1:].T)
    return rows


@lru_cache
def parts(bits: int) -> tuple[Hashes, NDArray[np.int32]]:
    """Return the hash bits to drop and the first row of each hashed context; the rows of characters come before."""
    own = np.array([min(_FEW.get(name, bits), bits) for name in NAMES[1:]])
    first = np.concatenate([[0], np.cumsum(1 << own)[:-1]])
    return (32 - own).astype(np.uint32)[:, np.newaxis], first.astype(np.int32)[:, np.newaxis]


def random_numbers(characters: Hashes) -> Hashes:
    """Return a pseudo-random number for each character; never 0 for 0."""
    return _mixed(characters, np.uint32(0x5BD1))


def _mixed(one: Hashes, other: Hashes | np.uint32) -> Hashes:
    value: Hashes = one * SPREAD + other
    value += np.uint32(1)
    value *= MIX
    value ^= value >> _FIFTEEN
    return value


def _after_last(found: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return, for each place, the index after the last True before it, or 0; (places,)."""
    after = np.where(found, np.arange(1, len(found) + 1), 0)
    return np.concatenate([[0], np.maximum.accumulate(after)[:-1]])


@dataclass(frozen=True)
class ContextSpec:
    """How contexts are computed. bits: hash bits per context. end: the separator."""

    alphabet: Alphabet
    end: str
    bits: int

    @cached_property
    def separator(self) -> int:
        """The number of the separator."""
        return int(self.alphabet.encode(self.end)[0])

    @cached_property
    def spaces(self) -> NDArray[np.bool_]:
        """True for characters that end a word, by number: white space and the separator."""
        ends = [character.isspace() or character == self.end for character in self.alphabet.characters]
        return np.array([False, *ends])
