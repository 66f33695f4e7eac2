"""The votes that a caption's words promise, whatever its template, its age, and how many people saw it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.dataset.schema import DatasetRecord
from memeloom.train.ranking.linear import Differences, Features, Rows, Vector, fit_ridge
from memeloom.train.ranking.words import Words, on_template, runs

# Chosen on validation captions.
_PENALTY: Final = 9.0
_DEGREE: Final = 5
# By how much the votes of a pair should be apart, in logarithms, and what a pair weighs beside a caption with votes.
_MARGIN, _PAIR_WEIGHT = 1.0, 0.5
# Captions with votes that a dataset needs to learn from them.
FEWEST: Final = 200
# Pairs are clearly apart with this many times the votes, and this many more.
_TIMES, _MORE = 2, 5
_BASE: Final = 36


@dataclass(frozen=True, slots=True)
class Popularity:
    """What a site says about captions; NaN where it says nothing. All are (captions,).

    votes, views: counted by the site. age: place among the captions of its source, 0 (oldest) to 1.
    template: number of each caption's template.
    """

    votes: Vector
    views: Vector
    age: Vector
    template: NDArray[np.int64]

    @classmethod
    def of(cls, records: Sequence[DatasetRecord]) -> "Popularity":
        """Return what is known of `records`.

        Sites that do not state when a meme was posted often number memes in base 36 one after the other, in their ids:
        then the number stands for the time.
        """
        numbers: dict[str, int] = {}
        return cls(
            np.array([np.nan if record.score is None else record.score for record in records]),
            np.array([np.nan if record.views is None else record.views for record in records]),
            _ages(records),
            np.array([numbers.setdefault(record.template, len(numbers)) for record in records], np.int64),
        )

    def residuals(self) -> tuple[Vector, NDArray[np.bool_]]:
        """Return log votes after template, age and views, and for which captions votes are known, (captions,) both.

        Both are controlled for by polynomials, fitted within templates by least squares: old memes have had more time,
        and what many people saw has more votes, whatever it says.
        """
        known = ~np.isnan(self.votes)
        template = self.template[known]
        target = _centred(np.log1p(np.maximum(self.votes[known], 0)), template)
        controls = []
        for values in (self.age[known], np.log1p(np.maximum(self.views[known], 0))):
            here = ~np.isnan(values)
            if here.any():
                filled = np.where(here, values, values[here].mean())
                filled = (filled - filled.mean()) / (filled.std() or 1)
                controls += [~here * 1.0, *(filled**power for power in range(1, _DEGREE + 1))]
        if controls:
            columns = np.column_stack([_centred(control, template) for control in controls])
            columns /= np.maximum(columns.std(axis=0), 1e-9)
            target = target - columns @ np.linalg.lstsq(columns, target, rcond=1e-9)[0]
        residual = np.zeros(len(known))
        residual[known] = target
        return residual, known


def _ages(records: Sequence[DatasetRecord]) -> Vector:
    ages = np.full(len(records), np.nan)
    for source in {record.source for record in records}:
        rows = np.array([row for row, record in enumerate(records) if record.source == source])
        times = np.array([_time(records[row]) for row in rows])
        if not np.isnan(times).any():
            ages[rows] = np.searchsorted(np.sort(times), times) / len(times)
    return ages


def _time(record: DatasetRecord) -> float:
    if record.posted_at is not None:
        return float(record.posted_at)
    number = record.id.rpartition(":")[2]
    return float(int(number, _BASE)) if number.isascii() and number.isalnum() and len(number) < _BASE else np.nan


def _centred(values: Vector, template: NDArray[np.int64]) -> Vector:
    """Return values less the mean of their template."""
    count = np.maximum(np.bincount(template), 1)
    return values - (np.bincount(template, values) / count)[template]


def vote_features(words: Words) -> Features:
    """Return the features that votes are learned from: words, pairs of words, and words with the template."""
    single = runs(words, 1)
    return Features.of([single, runs(words, 2), on_template(single, words)], len(words))


def fit_votes(words: Words, popularity: Popularity, preferred: tuple[Words, Words] | None = None) -> Vector | None:
    """Return weights (columns,) that predict votes; None if too few captions have votes, or all the same.

    preferred: pairs of captions, of which people liked the first ones better: their votes should be apart.
    """
    target, known = popularity.residuals()
    pairs = 0 if preferred is None else len(preferred[0])
    if known.sum() < FEWEST or not target[known].std() > 0:
        known = np.zeros_like(known)
        if pairs < FEWEST:
            return None
    if preferred is None or not pairs:
        return fit_ridge(vote_features(words), target, _PENALTY, known.astype(float))
    rows = Rows(vote_features(words), Differences(*map(vote_features, preferred)))
    importance = np.concatenate([known, np.full(pairs, _PAIR_WEIGHT)])
    return fit_ridge(rows, np.concatenate([target, np.full(pairs, _MARGIN)]), _PENALTY, importance)


class Pairs(NamedTuple):
    """Pairs of captions on one template whose votes are clearly apart: rows of the better and of the other one."""

    better: NDArray[np.int64]
    worse: NDArray[np.int64]


def clear_pairs(popularity: Popularity, count: int, seed: int) -> Pairs:
    """Draw `count` captions, each with another of its template; return the pairs that are clearly apart.

    Clearly apart is at least twice the votes, and five more.
    """
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(~np.isnan(popularity.votes))
    if not len(rows):
        return Pairs(rows, rows)
    rows = rows[np.argsort(popularity.template[rows], kind="stable")]
    template = popularity.template[rows]
    first, last = np.searchsorted(template, template, "left"), np.searchsorted(template, template, "right")
    one = rng.integers(0, len(rows), count)
    other = first[one] + (rng.random(count) * (last - first)[one]).astype(np.int64)
    one, other = rows[one], rows[other]
    higher = popularity.votes[one] >= popularity.votes[other]
    better, worse = np.where(higher, one, other), np.where(higher, other, one)
    more, fewer = popularity.votes[better], popularity.votes[worse]
    apart = (more >= _TIMES * fewer) & (more >= fewer + _MORE)
    return Pairs(better[apart], worse[apart])
