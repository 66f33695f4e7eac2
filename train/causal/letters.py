"""What a `causal` model knows of its characters, and how large its table is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet


@dataclass(frozen=True)
class Letters:
    """bits: of the table's part for each context. end: the separator."""

    alphabet: Alphabet
    end: str
    bits: int

    @cached_property
    def separator(self) -> int:
        """The number of the separator."""
        return int(self.alphabet.encode(self.end)[0])

    @cached_property
    def spaces(self) -> NDArray[np.bool_]:
        """Whether each character ends a word, by its number: white space and the separator."""
        ends = [character.isspace() or character == self.end for character in self.alphabet.characters]
        return np.array([False, *ends])
