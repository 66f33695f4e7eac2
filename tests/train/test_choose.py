"""Sampling rules, measured against their definitions."""

from collections.abc import Sequence

import numpy as np
import pytest

from memeloom.train.decoding.choosers import Chooser, by_sampling, by_threshold, greedily

SCORES = np.array([0.05, 0.5, 0.15, 0.3], np.float32)
BEST = (0, 1, 0, 0)
DRAWS = 200_000
EVERY = [greedily, by_threshold(0.1), by_sampling(), by_sampling(0.5, top_k=3, top_p=0.9)]


def shares(choose: Chooser, scores: Sequence[float] = SCORES.tolist()) -> list[float]:
    with np.errstate(divide="ignore"):
        logs = np.log(np.tile(np.array(scores, np.float32), (DRAWS, 1)))
    chosen = choose(logs, np.random.default_rng(11))
    return [float(share) for share in np.bincount(chosen, minlength=len(scores)) / DRAWS]


def test_threshold_sampling_has_the_probabilities_of_the_article() -> None:
    # r is uniform in [0.2, 1], so the bar r x 0.5 is uniform in [0.1, 0.5]: it lets 0.3 pass half of the time,
    # 0.15 an eighth, 0.05 never; those that pass share the draw equally.
    only_best, best_two, best_three = 0.5, 0.375, 0.125
    expected = [0, only_best + best_two / 2 + best_three / 3, best_three / 3, best_two / 2 + best_three / 3]
    assert shares(by_threshold(0.2)) == pytest.approx(expected, abs=0.005)
    assert min(shares(by_threshold(0.0))) > 0.01


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (by_threshold(1.0), BEST),
        (by_sampling(), SCORES),
        (by_sampling(0.5), SCORES**2 / (SCORES**2).sum()),
        (by_sampling(2.0), SCORES**0.5 / (SCORES**0.5).sum()),
        (by_sampling(1e-3), BEST),
        (by_sampling(5e-324), BEST),
        (by_sampling(top_k=1), BEST),
        (by_sampling(top_k=2), (0, 5 / 8, 0, 3 / 8)),
        (by_sampling(top_k=9), SCORES),
        (by_sampling(top_p=0.4), BEST),
        (by_sampling(top_p=0.6), (0, 5 / 8, 0, 3 / 8)),
        (by_sampling(top_p=0.9), (0, 50 / 95, 15 / 95, 30 / 95)),
        (by_sampling(top_p=1.0), SCORES),
        # The temperature comes before top_p: squared, the best holds 0.68 of all; before that only half.
        (by_sampling(0.5, top_p=0.65), BEST),
        # Top_k comes before top_p: the best holds 0.625 of the best two, of all only half.
        (by_sampling(top_k=2, top_p=0.62), BEST),
    ],
)
def test_tokens_are_chosen_with_these_probabilities(choose: Chooser, expected: Sequence[float]) -> None:
    assert shares(choose) == pytest.approx(list(map(float, expected)), abs=0.005)


def test_top_k_keeps_k_of_equally_likely_tokens() -> None:
    assert sum(share > 0 for share in shares(by_sampling(top_k=2), [0.25] * 4)) == 2


@pytest.mark.parametrize("choose", EVERY)
def test_rows_are_sampled_independently_and_never_tokens_of_probability_zero(choose: Chooser) -> None:
    assert shares(choose, [0, 0.5, 0, 0.5])[::2] == [0, 0]
    with np.errstate(divide="ignore"):
        certain = np.log(np.eye(7, dtype=np.float32))
    assert choose(certain, np.random.default_rng(1)).tolist() == list(range(7))
