"""Captions packed into rows, each after the name of its template.

    d o g e ⏎ w o w | s u c h      what the network reads
    · · · · w o w | s u c h ⏎      what it learns to predict

⏎ is `END`. Each pass shuffles the captions, packs them into rows, and rows into batches, so that a batch depends on the
seed and step only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.train.characters import END, Alphabet
from memeloom.train.corpus import UNKNOWN_TEMPLATE, Captions, shuffled, template_numbers

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
    """What the network is told of each caption's template: the number of its vector, and of its prefix, (captions,)."""

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
        self._rows, self._length, self._seed, self._unknown = rows, length, seed, unknown
        self._vectors = template_numbers(captions.templates, known)
        self._ends: list[int] = []
        self._packed = lru_cache(2)(self._pack)

    @property
    def steps(self) -> int:
        """Number of batches in the first pass; other passes have nearly as many."""
        return self._last_step(0)

    @property
    def characters(self) -> int:
        """Mean number of characters of captions in a batch."""
        return len(self._captions.characters) // self.steps

    def batch(self, step: int) -> Packed:
        """Return the batch of a step: see `fill`."""
        number = 0
        while step >= self._last_step(number):
            number += 1
        first = step - (self._last_step(number - 1) if number else 0)
        order, begins = self._packed(number)
        row = slice(*(min(at, len(begins) - 1) for at in (first * self._rows, (first + 1) * self._rows)))
        chosen = order[begins[row.start] : begins[row.stop]]
        captions_a_row = np.diff(begins[row.start : row.stop + 1])
        rows = np.repeat(np.arange(len(captions_a_row)), captions_a_row)
        told = self._told(number)
        told = Told(told.vectors[chosen], told.prefixes[chosen])
        return fill(self._captions, self._prefixes, chosen, rows, told, (self._rows, self._length))

    def _told(self, number: int) -> Told:
        """Hide some templates in a pass."""
        prefixes = self._captions.templates.astype(np.int64) + 1
        if not self._unknown:
            return Told(self._vectors, prefixes)
        drawn = np.random.default_rng([self._seed, number]).random(len(prefixes))
        vectors = np.where(drawn < self._unknown, UNKNOWN_TEMPLATE, self._vectors)
        return Told(vectors, np.where(drawn < self._unknown / 2, NAMELESS, prefixes))

    def _last_step(self, number: int) -> int:
        """Return the number of steps of all passes up to this one."""
        while len(self._ends) <= number:
            rows = len(self._packed(len(self._ends))[1]) - 1
            self._ends.append((self._ends[-1] if self._ends else 0) - (-rows // self._rows))
        return self._ends[number]

    def _pack(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the captions of a pass in order, and the first caption of each row (and one behind the last)."""
        count = len(self._captions)
        order = shuffled(np.arange(number * count, (number + 1) * count), count, self._seed)
        sizes = sizes_of(self._captions, self._prefixes, order, self._told(number).prefixes[order])
        ends = np.cumsum(np.minimum(sizes, self._length))
        begins = [0]
        while begins[-1] < count:
            before = ends[begins[-1] - 1] if begins[-1] else 0
            begins.append(int(np.searchsorted(ends, before + self._length, side="right")))
        return order, np.array(begins)


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
