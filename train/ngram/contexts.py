"""Contexts of characters as 48-bit hashes, of whole texts (`text`) and of captions in decoding (`state`).

A context is a stretch of text before a character, and perhaps the template. The hash is polynomial, mod 2^64:
H(text + c) = (H(text) + r(c)) · B, with r(c) pseudo-random, so that the hash of any stretch is a difference of prefix
sums. Both ways give the same hashes.
"""

from collections.abc import Sequence
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
# The longest stretch that `ContextState` holds.
LONGEST = 12
# The most words of a context.
MOST_WORDS = 3
BASE: Final = 0x9E3779B97F4A7C15
INVERSE: Final = pow(BASE, -1, 2**64)
_MIX, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TEMPLATE, SECOND, THIRD = (
    np.uint64(number) for number in (0xD6E8FEB86659FD93, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
)
_SEED = np.uint64(0x2545F4914F6CDD1D)


class Context(NamedTuple):
    """What a context holds.

    characters: number of preceding characters, at most `LONGEST`; the start of the caption counts as one.
    suffix: number of preceding characters of the current word. words: number of words, 1 to 3: the current one so far
        and those before it. At most one of these three is not 0.
    template: whether the template belongs to it.
    """

    characters: int = 0
    suffix: int = 0
    words: int = 0
    template: bool = False


class Contexts:
    """The contexts of several chains, one after the other, as columns.

    Each chain goes from general to specific, and begins with the empty context.

    chains: as given. depths: number of contexts of each chain. chain: of each context, (contexts,). begins: first
    context of each chain, (chains,).
    characters, suffix, words, template: see `Context`, (contexts,).
    marks: make the keys of different contexts differ, where their hashes are equal, (contexts,).
    """

    def __init__(self, chains: Sequence[Sequence[Context]]) -> None:
        every = [context for chain in chains for context in chain]
        self.chains, self.depths = chains, [len(chain) for chain in chains]
        self.chain = np.repeat(np.arange(len(chains)), self.depths)
        self.begins = np.flatnonzero(np.diff(self.chain, prepend=-1))
        self.characters, self.suffix, self.words = (
            np.array(column) for column in list(zip(*every, strict=True))[:3]
        )  # fmt: skip
        self.template = np.array([context.template for context in every])
        self.marks = _spread(np.arange(1, len(every) + 1, dtype=np.uint64) * np.uint64(BASE)) & CLEAR

    def __len__(self) -> int:
        """Return the number of contexts, of all chains."""
        return len(self.chain)

    def hashes(self, stretches: "Stretches") -> tuple[Hashes, NDArray[np.bool_]]:
        """Return the hash of each context at each position, with `SYMBOL_BITS` zeros below, (contexts, positions).

        Also returns which of them hold more than the context before them in their chain; others count nothing.
        """
        values = stretches.values(self)
        values += np.where(self.template[:, np.newaxis], (stretches.template + np.uint64(1)) * _TEMPLATE, np.uint64(0))
        mixed = _spread(values + _SEED) & CLEAR
        differs = np.ones(mixed.shape, np.bool_)
        np.not_equal(mixed[1:], mixed[:-1], out=differs[1:])
        differs[self.begins] = True
        return mixed, differs


class Stretches(Protocol):
    """Hashes of stretches of text before positions."""

    def values(self, contexts: Contexts) -> Hashes:
        """Return the hash of the stretch of each context, without the template, a new (contexts, positions)."""
        ...

    @property
    def template(self) -> Hashes:
        """Number of the template, (positions,)."""
        ...


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
        """The number r(c) of the start of a caption, of each character, and 0 for none, (characters + 2,)."""
        numbers = _spread(np.arange(1, len(self.spaces) + 2, dtype=np.uint64) * np.uint64(BASE))
        numbers[-1] = 0
        return numbers


def powers(base: int, count: int) -> Hashes:
    """Return base^0 … base^(count - 1), mod 2^64."""
    factors = np.full(count, np.uint64(base))
    factors[0] = 1
    result: Hashes = np.multiply.accumulate(factors, dtype=np.uint64)
    return result
