"""Whether a caption reads like those of people, or like a model's: learned from both.

People's captions against samples of the model itself (noise-contrastive estimation, Gutmann and Hyvärinen 2010; for
texts: Deng et al. 2020, https://arxiv.org/abs/2004.11714) show what the model gets wrong, whatever its kind. A linear
model of word pairs, triples and pairs further apart is learned first. Its score, how often the caption's runs occur in
training, and how likely the model finds it, are then weighed by a logistic regression, on captions that neither the
linear model nor the counts have seen.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memeloom.train.ranking.counts import RunCounts
from memeloom.train.ranking.linear import COLUMNS, Features, Vector, fit_logistic, fit_ridge
from memeloom.train.ranking.words import Words, on_template, pairs, runs

# Chosen on validation captions.
_PENALTY: Final = 1.0
# Weight of all written captions beside that of all people's.
_WRITTEN: Final = 1 / 3
_DISTANCES: Final = (2, 3, 4, 5)
_WEIGHTS, _CENTRE, _SPREAD, _MEASURES = "coherence", "centre", "spread", "measures"
_LENGTH_STEPS: Final = 4
# No measure counts as further from the mean than this, in standard deviations.
_FURTHEST: Final = 4.0


def coherence_features(words: Words) -> Features:
    """Return the features of the linear model."""
    single, pair = runs(words, 1), runs(words, 2)
    apart = [pairs(words, distance) for distance in _DISTANCES]
    families = [single, pair, runs(words, 3), *apart, on_template(single, words), on_template(pair, words)]
    return Features.of(families, len(words))


def fit_linear(people: Words, written: Words) -> Vector:
    """Return weights (columns,) that are high for people's captions."""
    weight = _WRITTEN * len(people) * balance(people, written)
    labels = np.concatenate([np.ones(len(people)), np.zeros(len(written))])
    importance = np.concatenate([np.ones(len(people)), weight])
    target = labels - 1 / (1 + _WRITTEN)
    parts = [coherence_features(people), coherence_features(written)]
    blocks = [
        (np.concatenate([one[0], other[0] + np.int32(len(people))]), np.concatenate([one[1], other[1]]))
        for one, other in zip(parts[0].blocks, parts[1].blocks, strict=True)
    ]
    together = Features(blocks, np.concatenate([part.scale for part in parts]))
    return fit_ridge(together, target, _PENALTY, importance)


def balance(people: Words, written: Words) -> Vector:
    """Return weights of written captions, (captions,), by which they have the lengths of people's; their sum is 1.

    Else a caption would pass for one of people by its length alone, and a model that ends too early made to ramble.
    """
    one, other = (_lengths(words) for words in (people, written))
    size = max(one.max(), other.max()) + 1
    share = np.bincount(one, minlength=size) / len(one)
    weight: Vector = (share / np.maximum(np.bincount(other, minlength=size), 1))[other]
    weight /= max(weight.sum(), 1e-9)
    return weight


def _lengths(words: Words) -> NDArray[np.int64]:
    """Return the rounded logarithm of each caption's number of words, in quarters, (captions,)."""
    steps = np.round(_LENGTH_STEPS * np.log2(np.bincount(words.caption, minlength=len(words))))
    return steps.astype(np.int64)


class Coherence:
    """The logarithm of the odds that a caption is of people.

    weights: of the linear model, (columns,). centre, spread: of the measures. measures: their weights, those of their
    squares, and an intercept.
    """

    def __init__(
        self, weights: NDArray[np.floating], centre: Vector, spread: Vector, measures: Vector, counts: RunCounts
    ) -> None:
        self._weights, self._centre, self._spread = weights, centre, spread
        self._measures, self._counts = measures, counts

    @classmethod
    def fit(
        cls,
        weights: Vector,
        counts: RunCounts,
        people: tuple[Words, Vector],
        written: tuple[Words, Vector],
    ) -> "Coherence":
        """Weigh the measures on captions of people and of the model, neither of which `weights` were learned from.

        people, written: words, and the logarithm of the model's likelihood of a token, (captions,).
        """
        found = [_measured(words, likelihood, weights, counts) for words, likelihood in (people, written)]
        values = np.concatenate(found)
        centre, spread = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-6)
        labels = np.arange(len(values)) < len(found[0])
        importance = np.concatenate([np.full(len(found[0]), 1 / len(found[0])), balance(people[0], written[0])])
        measures = fit_logistic(_expanded((values - centre) / spread), labels, importance)
        return cls(weights, centre, spread, measures, counts)

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], counts: RunCounts) -> "Coherence | None":
        """Return what is in `arrays`, None if nothing was learned. Raises KeyError, ValueError."""
        if _WEIGHTS not in arrays:
            return None
        weights, centre, spread, measures = (arrays[name] for name in (_WEIGHTS, _CENTRE, _SPREAD, _MEASURES))
        fits = weights.shape == (COLUMNS,) and centre.shape == spread.shape
        if not (fits and centre.ndim == 1 and measures.shape == (2 * len(centre) + 1,)):
            raise ValueError("the weights of coherence are not what they should be")
        return cls(weights, centre, spread, measures, counts)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `restored` needs."""
        rounded = self._weights.astype(np.float16)
        return {_WEIGHTS: rounded, _CENTRE: self._centre, _SPREAD: self._spread, _MEASURES: self._measures}

    def odds(self, words: Words, likelihood: Vector) -> Vector:
        """Return the logarithm of the odds, (captions,). likelihood: as in `fit`."""
        values = (_measured(words, likelihood, self._weights, self._counts) - self._centre) / self._spread
        odds: Vector = _expanded(values) @ self._measures[:-1] + self._measures[-1]
        return odds

    @property
    def likelihood_spread(self) -> float:
        """Return the standard deviation of the likelihood in `fit`, which differs between kinds of tokens."""
        return float(self._spread[-1])


def _measured(
    words: Words, likelihood: Vector, weights: NDArray[np.floating], counts: RunCounts
) -> NDArray[np.float64]:
    linear = coherence_features(words).dot(weights)
    return np.column_stack([counts.features(words), linear, likelihood])


def _expanded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(values, -_FURTHEST, _FURTHEST)
    return np.column_stack([clipped, clipped**2])
