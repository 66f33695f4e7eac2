"""Which parts of a text occur word for word in the training captions.

The training captions are scanned once, and only what is searched for is held: memory does not grow with the training
split. Whole texts are compared as they are. Runs of characters are compared by a 64-bit hash of every window of their
length, which follows from two prefix sums over the text (Karp and Rabin, "Efficient Randomized Pattern-Matching
Algorithms", 1987): a million runs searched in ten million captions hardly ever collide.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RUN = 30
"""Characters in a row, about six words, that a caption hardly has by chance."""

STEP, LONGEST = 10, 100
"""Lengths of the runs that are searched for: every ten characters up to a hundred."""

# Three more than a multiple of eight: differences of its powers are divisible by few powers of two.
_BASE = 0x9E3779B97F4A7C13
_INVERSE = pow(_BASE, -1, 2**64)
_SIEVE_BITS = 22
# Separates texts: no text contains it, so no run spans two.
_BETWEEN = "\n"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What one text shares with the training captions.

    verbatim, on_template: the whole text, on any template, and on its own.
    longest: characters of its longest shared run, in steps of `STEP`. windows: number of its runs of `RUN` characters;
    remembered: how many of them occur in training.
    """

    verbatim: bool
    on_template: bool
    longest: int
    windows: int
    remembered: int


def normal(boxes: Iterable[str]) -> str:
    """Return a caption in the form that is compared: lower case, single spaces, a bar behind each box."""
    return "".join(f"{' '.join(box.lower().split())}|" for box in boxes)


class OverlapIndex:
    """Searches for texts in captions that are scanned. texts: made by `normal`. templates: the id of each text's."""

    def __init__(self, texts: Sequence[str], templates: Sequence[str]) -> None:
        self._texts, self._templates = texts, templates
        self._whole = set(texts)
        self._on_template: set[tuple[str, str]] = set()
        self._anywhere: set[str] = set()
        sums, most = [_prefix_sums(text) for text in texts], max(map(len, texts), default=0)
        self._runs = [_Runs(length, sums) for length in range(STEP, min(LONGEST, most) + 1, STEP)]

    def scan(self, texts: Sequence[str], templates: Sequence[str]) -> None:
        """Scan some training captions. templates: the id of each one's."""
        for text, template in zip(texts, templates, strict=True):
            if text in self._whole:
                self._anywhere.add(text)
                self._on_template.add((template, text))
        sums = _prefix_sums(_BETWEEN.join(texts))
        for runs in self._runs:
            runs.scan(sums)

    def found(self) -> list[Overlap]:
        """Return the overlap of each text with everything scanned."""
        windows = {runs.length: runs.by_text() for runs in self._runs}
        return [self._overlap(place, windows) for place in range(len(self._texts))]

    def _overlap(self, place: int, windows: dict[int, list[NDArray[np.bool_]]]) -> Overlap:
        text, template = self._texts[place], self._templates[place]
        longest = max((length for length, each in windows.items() if each[place].any()), default=0)
        of_run = windows[RUN][place] if RUN in windows else np.zeros(0, np.bool_)
        return Overlap(
            verbatim=text in self._anywhere,
            on_template=(template, text) in self._on_template,
            longest=longest,
            windows=len(of_run),
            remembered=int(of_run.sum()),
        )


class _Runs:
    def __init__(self, length: int, texts: Sequence[NDArray[np.uint64]]) -> None:
        self.length = length
        windows = [_windows(sums, length) for sums in texts]
        self._counts = list(map(len, windows))
        hashes = np.concatenate(windows)
        self._sorted, self._place = np.unique(hashes, return_inverse=True)
        self._occurred = np.zeros(len(self._sorted), np.bool_)
        # Most windows of training captions do not match: a small table rejects them quickly.
        self._sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
        self._sieve[self._sorted >> np.uint64(64 - _SIEVE_BITS)] = True

    def scan(self, sums: NDArray[np.uint64]) -> None:
        hashes = _windows(sums, self.length)
        hashes = hashes[self._sieve[hashes >> np.uint64(64 - _SIEVE_BITS)]]
        places = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        self._occurred[places[self._sorted[places] == hashes]] = True

    def by_text(self) -> list[NDArray[np.bool_]]:
        return np.split(self._occurred[self._place], np.cumsum(self._counts)[:-1])


def _prefix_sums(text: str) -> NDArray[np.uint64]:
    """Return prefix sums of the characters, each times the power of its position, modulo 2^64."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    values = _mixed(points) * _powers(_BASE, len(points))
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])


def _windows(sums: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """Return a hash of each window, divided by the power of its first position so that it is independent of it."""
    if len(sums) <= length:
        return np.zeros(0, np.uint64)
    differences = sums[length:] - sums[:-length]
    hashes: NDArray[np.uint64] = differences * _powers(_INVERSE, len(differences))
    return hashes


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    return _power_table(base, max(count - 1, 0).bit_length())[:count]


@lru_cache(64)
def _power_table(base: int, doublings: int) -> NDArray[np.uint64]:
    powers = np.ones(1, np.uint64)
    for _ in range(doublings):
        powers = np.concatenate([powers, powers * np.uint64(pow(base, len(powers), 2**64))])
    return powers


def _mixed(points: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a pseudo-random 64-bit number for each code point (Steele et al., SplitMix, 2014)."""
    values = (points + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
