"""Captions packed into rows, each after the name of its template.

    d o g e ⏎ w o w | s u c h      what the network reads
    · · · · w o w | s u c h ⏎      what it learns to predict

⏎ is `END`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import END, Alphabet
from memeloom.train.corpus import UNKNOWN_TEMPLATE, Captions, template_numbers
from memeloom.train.packed_rows import PackedRows

_NAME_CHARACTERS = 40
NAMELESS = 0

# (characters, captions, templates), labels and weights, each (rows, length).
Packed: TypeAlias = tuple[tuple[NDArray[np.int32], ...], NDArray[np.int32], NDArray[np.float32]]


def name_prefix(name: str, alphabet: Alphabet, separator: str) -> NDArray[np.uint16]:
    """Return the beginning of `name` as characters of the alphabet, and `END`."""
    plain = " ".join(alphabet.normalize(name).replace(separator, " ").split())
    return np.append(alphabet.encode(plain)[:_NAME_CHARACTERS], alphabet.encode(END))


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before captions: `END` alone (number `NAMELESS`), then the name of each template.

    characters: concatenated. starts: offset of each prefix, and the end of the last, (1 + prefixes,).
    """

    characters: NDArray[np.uint16]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, names: Sequence[str], alphabet: Alphabet, separator: str) -> "Prefixes":
        """Return the prefixes of templates by name."""
        prefixes = [name_prefix(name, alphabet, separator) for name in ("", *names)]
        return cls(np.concatenate(prefixes), np.cumsum([0, *map(len, prefixes)]))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Characters of each prefix."""
        return np.diff(self.starts)


class Told(NamedTuple):
    """What the network knows about each caption's template: the numbers of its vector and its prefix, (captions,)."""

    vectors: NDArray[np.int64]
    prefixes: NDArray[np.int64]


class PackedBatches:
    """The batches of captions.

    rows, length: shape of a batch. A caption that does not fit into a row is truncated.
    known: rows of the templates that have training captions; the others have no vector of their own.
    unknown: share of the captions whose vector is hidden; half of these have no name either.
    """

    def __init__(
        self,
        captions: Captions,
        prefixes: Prefixes,
        *,
        rows: int,
        length: int,
        seed: int,
        known: Sequence[int] | NDArray[Any],
        unknown: float,
    ) -> None:
        self._captions, self._prefixes = captions, prefixes
        self._shape, self._seed, self._unknown = (rows, length), seed, unknown
        self._vectors = template_numbers(captions.templates, known)
        self._packed = PackedRows(self._sizes, len(captions), rows=rows, length=length, seed=seed)

    @property
    def steps(self) -> int:
        """Number of batches in the first pass; other passes have nearly as many."""
        return self._packed.steps

    @property
    def characters(self) -> int:
        """Mean number of characters of captions in a batch."""
        return len(self._captions.characters) // self.steps

    def batch(self, step: int) -> Packed:
        """Return the batch of a step: see `fill`."""
        number, chosen, rows = self._packed.at(step)
        told = self._told(number)
        told = Told(told.vectors[chosen], told.prefixes[chosen])
        return fill(self._captions, self._prefixes, chosen, rows, told, self._shape)

    def _told(self, number: int) -> Told:
        """Hide some templates in a pass."""
        prefixes = self._captions.templates.astype(np.int64) + 1
        if not self._unknown:
            return Told(self._vectors, prefixes)
        drawn = np.random.default_rng([self._seed, number]).random(len(prefixes))
        vectors = np.where(drawn < self._unknown, UNKNOWN_TEMPLATE, self._vectors)
        return Told(vectors, np.where(drawn < self._unknown / 2, NAMELESS, prefixes))

    def _sizes(self, number: int) -> NDArray[np.int64]:
        """Return the characters of a row that each caption takes in a pass."""
        every = np.arange(len(self._captions))
        return np.minimum(sizes_of(self._captions, self._prefixes, every, self._told(number).prefixes), self._shape[1])


def sizes_of(
    captions: Captions, prefixes: Prefixes, chosen: NDArray[np.int64], numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many characters the network reads of captions with the prefixes `numbers`: all but the last."""
    return captions.lengths_of(chosen) + prefixes.lengths[numbers] - 1


def fill(
    captions: Captions,
    prefixes: Prefixes,
    chosen: NDArray[np.int64],
    rows: NDArray[np.int64],
    told: Told,
    shape: tuple[int, int],
) -> Packed:
    """Return a batch of the captions `chosen`, packed in order into their `rows`, which ascend.

    shape: rows, length. Captions are numbered from 1 in each row; padding has number 0. Labels are characters, numbered
    from 0, and have weight 1 in captions, 0 in prefixes and padding.
    """
    length = shape[1]
    sizes = np.minimum(sizes_of(captions, prefixes, chosen, told.prefixes), length)
    starts = np.cumsum(sizes) - sizes
    first_of_row = np.searchsorted(rows, rows)
    inside = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    at = np.repeat(rows * length + starts - starts[first_of_row], sizes) + inside

    def placed(values: NDArray[Any], kind: type[np.generic] = np.int32) -> NDArray[Any]:
        whole = np.zeros(shape[0] * length, kind)
        whole[at] = values
        return whole.reshape(shape)

    # Place in the caption; negative in the prefix.
    place = inside - np.repeat(prefixes.lengths[told.prefixes], sizes)
    begins = np.repeat(captions.starts[:-1][chosen], sizes)
    named = np.repeat(prefixes.starts[:-1][told.prefixes], sizes) + inside
    read = np.where(
        place < 0,
        prefixes.characters[np.minimum(named, len(prefixes.characters) - 1)],
        captions.characters[begins + np.maximum(place, 0)],
    )
    following = captions.characters[begins + np.maximum(place + 1, 0)].astype(np.int64) - 1
    numbers = np.repeat(np.arange(len(chosen)) - first_of_row + 1, sizes)
    inputs = placed(read), placed(numbers), placed(np.repeat(told.vectors, sizes))
    weights = place >= -1
    return inputs, placed(np.where(weights, following, 0)), placed(weights, np.float32)
