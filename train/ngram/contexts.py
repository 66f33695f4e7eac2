"""Contexts of characters as 48-bit hashes, of whole texts (`text`) and of captions in decoding (`state`).

A context is a stretch of text before a character, and perhaps the template and the number of the text box. The hash is
polynomial, mod 2^64: H(text + c) = (H(text) + r(c)) · B, with r(c) pseudo-random, so that the hash of any stretch is a
difference of prefix sums. Both ways give the same hashes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet

Hashes = NDArray[np.uint64]
# The low bits of a hash are free for the number of a character.
SYMBOL_BITS = 16
CLEAR: Final = np.uint64(2**64 - 2**SYMBOL_BITS)
# The template of captions whose template is unknown; it is in no context that was counted.
UNKNOWN_TEMPLATE = 0
# The longest stretch that `ContextState` holds.
LONGEST = 12
# The most words of a context.
MOST_WORDS = 3
BASE: Final = 0x9E3779B97F4A7C15
INVERSE: Final = pow(BASE, -1, 2**64)
_MIX, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TEMPLATE, _BOX, SECOND, THIRD = (
    np.uint64(number) for number in (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
)
_SEED = np.uint64(0x2545F4914F6CDD1D)


class Context(NamedTuple):
    """What a context holds.

    characters: the last so many, at most `LONGEST`, cut at the begin of the caption, which is a character of its own.
    suffix: the last so many of the current word. words: the current word so far and so many words before it, 1 to 3 in
        all. Only one of these three is not 0.
    template, box: whether the template, and the number of the text box, belong to it.
    """

    characters: int = 0
    suffix: int = 0
    words: int = 0
    template: bool = False
    box: bool = False


class Stretches(Protocol):
    """Hashes of stretches of text before positions, uint64 (positions,) each."""

    def characters(self, most: int) -> Hashes:
        """Return the hash of the last `most` characters."""
        ...

    def suffix(self, most: int) -> Hashes:
        """Return the hash of the last `most` characters of the current word."""
        ...

    def words(self, count: int) -> Hashes:
        """Return the hash of the current word so far and the `count` - 1 words before it."""
        ...

    @property
    def template(self) -> Hashes:
        """Number of the template."""
        ...

    @property
    def box(self) -> Hashes:
        """Number of the text box."""
        ...


def hashes(context: Context, stretches: Stretches) -> Hashes:
    """Return the hash of `context` at each position, with `SYMBOL_BITS` zeros below; equal contexts have equal ones."""
    if context.words:
        value = stretches.words(context.words)
    elif context.suffix:
        value = stretches.suffix(context.suffix)
    else:
        value = stretches.characters(context.characters)
    if context.template:
        value = value + (stretches.template + np.uint64(1)) * _TEMPLATE
    if context.box:
        value = value + (stretches.box + np.uint64(1)) * _BOX
    return _spread(value + _SEED) & CLEAR


def _spread(value: Hashes) -> Hashes:
    """The finalizer of SplitMix64."""
    value = (value ^ (value >> np.uint64(30))) * _MIX
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    spread: Hashes = value ^ (value >> np.uint64(31))
    return spread


@dataclass(frozen=True)
class Spelling:
    """The alphabet as contexts need it.

    spaces: True for characters that end a word, by number from 1, (characters + 1,). separator: the number of the
    character that ends a box.
    """

    spaces: NDArray[np.bool_]
    separator: int

    @classmethod
    def of(cls, alphabet: Alphabet, separator: str) -> "Spelling":
        """Return the spelling of an alphabet: white space and the separator end words."""
        ends = [character.isspace() or character == separator for character in alphabet.characters]
        return cls(np.array([False, *ends]), int(alphabet.encode(separator)[0]))

    @property
    def characters(self) -> int:
        """Number of characters."""
        return len(self.spaces) - 1

    @cached_property
    def numbers(self) -> Hashes:
        """The number r(c) of the begin of a caption, of each character, and 0 for none, (characters + 2,)."""
        numbers = _spread(np.arange(1, len(self.spaces) + 2, dtype=np.uint64) * np.uint64(BASE))
        numbers[-1] = 0
        return numbers


def powers(base: int, count: int) -> Hashes:
    """Return base^0 … base^(count - 1), mod 2^64."""
    factors = np.full(count, np.uint64(base))
    factors[0] = 1
    result: Hashes = np.multiply.accumulate(factors, dtype=np.uint64)
    return result
