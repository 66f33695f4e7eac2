"""Which memes a person sees next: those that people like, with enough of the others to find out what they like.

Thompson sampling with a Bayesian linear regression (Agrawal and Goyal, "Thompson Sampling for Contextual Bandits with
Linear Payoffs", 2013, https://arxiv.org/abs/1209.3352). Whether a meme is liked is predicted from its template, its
model's arm, both together, and how it is written. The weights have a Gaussian posterior. For each place of a page,
weights are drawn from it, and the meme that is best under them is shown: what is liked is shown often, and what is
unknown is tried until it is known. The posterior depends on sums alone, which are added and taken away exactly: new
sums of a meme replace the old ones, in any order, as often as they come.
"""

import math
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.feed import FeedMeme, Sums

# A place of a page goes to a random template with this probability, so a template that has memes gets at least
# `FLOOR` / templates of all places, however little it is liked.
FLOOR: Final = 0.1
# A meme that was shown without a reaction counts as this share of a dislike: most people react to nothing.
_PASSED: Final = 0.1
# Variance of a reaction, from 0 (dislike) to 1 (like). Before any: its mean, and the standard deviation of each weight.
_NOISE: Final = 0.25
_MEAN: Final = 0.5
_SPREAD: Final = 0.15
# Features that are told apart; further ones share columns. The matrix of the posterior has this side.
_COLUMNS: Final = 2048
_WORD_BUCKETS: Final = 128
_WORD, _DIGIT = re.compile(r"[^\W_]+"), re.compile(r"\d")
_BLOCK: Final = 4096

Vector = NDArray[np.float64]


class _Posterior(NamedTuple):
    """Of the first weights: their mean, (weights,), and a root of their covariance, (weights, weights)."""

    mean: NDArray[np.float32]
    root: NDArray[np.float32]


class Bandit:
    """Learns what people like, and chooses memes. Safe to share between threads."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        # What each meme has taught: its number of reactions, and how many of them were likes.
        self._known: dict[str, tuple[float, float]] = {}
        self._precision = np.zeros((_COLUMNS, _COLUMNS))
        self._sums = np.zeros(_COLUMNS)
        self._posterior = _Posterior(np.zeros(0, np.float32), np.zeros((0, 0), np.float32))
        self._learning, self._naming = Lock(), Lock()

    def learn(self, rows: Iterable[tuple[FeedMeme, Sums]]) -> None:
        """Learn from the sums of memes; they replace those of the same memes learned before.

        `Feed.reacted(since)` gives such rows, also if some of them have been learned. Memes without reactions may be
        among them: that they were shown counts, too.
        """
        with self._learning:
            changed = False
            block: list[tuple[FeedMeme, float, float]] = []
            for meme, sums in rows:
                votes = sums.likes + sums.dislikes
                tried = votes + _PASSED * max(sums.shown - votes, 0)
                tried_before, liked_before = self._known.get(meme.id, (0.0, 0.0))
                more = tried - tried_before, sums.likes - liked_before
                if any(more):
                    self._known[meme.id] = tried, sums.likes
                    block.append((meme, *more))
                    changed = True
                if len(block) == _BLOCK:
                    self._add(block)
                    block = []
            self._add(block)
            if changed:
                self._posterior = self._solved()

    def choose(self, candidates: Sequence[FeedMeme], most: int, rng: np.random.Generator) -> list[int]:
        """Return the places of up to `most` memes among `candidates`, best first."""
        most = min(most, len(candidates))
        if most < 1:
            return []
        rows, columns, values = self._features(candidates)
        weights = self._drawn(most, rng)
        scores = np.add.reduceat(weights[columns] * values[:, None], np.searchsorted(rows, np.arange(len(candidates))))
        left = np.ones(len(candidates), np.bool_)
        templates = np.unique([meme.template for meme in candidates], return_inverse=True)[1]
        chosen = []
        for place in range(most):
            among = left
            if rng.random() < FLOOR:
                among = left & (templates == rng.choice(np.unique(templates[left])))
            best = int(np.argmax(np.where(among, scores[:, place], -np.inf)))
            left[best] = False
            chosen.append(best)
        return chosen

    def _drawn(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return draws of all weights, (columns, draws)."""
        mean, root = self._posterior
        noise = rng.standard_normal((_COLUMNS, count), np.float32)
        return np.concatenate([mean[:, None] + root @ noise[: len(mean)], _SPREAD * noise[len(mean) :]])

    def _add(self, block: Sequence[tuple[FeedMeme, float, float]]) -> None:
        rows, columns, values = self._features([meme for meme, _, _ in block])
        tried, liked = (np.array([row[at] for row in block]) for at in (1, 2))
        np.add.at(self._sums, columns, values * (liked - _MEAN * tried)[rows])
        # The products of all pairs of features of each meme: features of one meme lie side by side.
        counts = np.bincount(rows, minlength=len(block))
        first = np.repeat(np.cumsum(counts) - counts, counts)
        for offset in range(int(counts.max(initial=0))):
            there = offset < counts[rows]
            one, other = np.flatnonzero(there), (first + offset)[there]
            amount = tried[rows[one]] * values[one] * values[other]
            np.add.at(self._precision.reshape(-1), columns[one] * _COLUMNS + columns[other], amount)

    def _solved(self) -> _Posterior:
        used = len(self._columns)
        precision = self._precision[:used, :used] / _NOISE + np.eye(used) / _SPREAD**2
        covariance = np.linalg.inv(precision)
        covariance = (covariance + covariance.T) / 2
        mean = covariance @ (self._sums[:used] / _NOISE)
        return _Posterior(mean.astype(np.float32), np.linalg.cholesky(covariance).astype(np.float32))

    def _features(self, memes: Sequence[FeedMeme]) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
        """Return the features of memes, (features,): the place of the meme, the column, and the value."""
        rows, columns, values = list[int](), list[int](), list[float]()
        with self._naming:
            for row, meme in enumerate(memes):
                for name, value in _features_of(meme.template, meme.arm, meme.boxes):
                    rows.append(row)
                    columns.append(self._column(name))
                    values.append(value)
        return np.array(rows, np.int64), np.array(columns, np.int64), np.array(values)

    def _column(self, name: str) -> int:
        column = self._columns.get(name)
        if column is None:
            full = len(self._columns) >= _COLUMNS
            column = zlib.crc32(name.encode()) % _COLUMNS if full else len(self._columns)
            if not full:
                self._columns[name] = column
        return column


@lru_cache(1 << 14)
def _features_of(template: str, arm: str, boxes: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    """Return the names and values of a meme's features."""
    text = " ".join(boxes)
    words = _WORD.findall(text.casefold())
    buckets = {zlib.crc32(word.encode()) % _WORD_BUCKETS for word in words}
    names = [
        "", f"template {template}", f"arm {arm}", f"template {template} arm {arm}",
        # By factors of the square root of two.
        f"length {round(2 * math.log2(len(words) + 1))}",
        f"boxes {sum(bool(box.strip()) for box in boxes)}",
        *(sign for sign in "?!" if sign in text),
        *(["digits"] if _DIGIT.search(text) else []),
    ]  # fmt: skip
    share = 1 / math.sqrt(max(len(buckets), 1))
    return (*((name, 1.0) for name in names), *((f"word {bucket}", share) for bucket in buckets))
