"""The sampling rule of the article's second method, measured against what it says."""

import numpy as np
import pytest

from train.decoding.choose import by_threshold

SCORES = np.array([0.05, 0.5, 0.15, 0.3], np.float32)
DRAWS = 200_000


def shares(min_score: float) -> list[float]:
    chosen = by_threshold(min_score)(np.log(np.tile(SCORES, (DRAWS, 1))), np.random.default_rng(11))
    return [float(share) for share in np.bincount(chosen, minlength=4) / DRAWS]


def test_characters_come_as_often_as_the_rule_says() -> None:
    # r is uniform in [0.2, 1], so the bar r x 0.5 is uniform in [0.1, 0.5]: it lets 0.3 pass half of the time,
    # 0.15 an eighth, 0.05 never; those that pass share the draw equally.
    only_best, best_two, best_three = 0.5, 0.375, 0.125
    expected = [0, only_best + best_two / 2 + best_three / 3, best_three / 3, best_two / 2 + best_three / 3]
    assert shares(0.2) == pytest.approx(expected, abs=0.005)


def test_a_min_score_of_one_takes_the_best_always() -> None:
    assert shares(1.0) == [0, 1, 0, 0]


def test_a_min_score_of_nought_reaches_every_character() -> None:
    assert min(shares(0.0)) > 0.01


def test_the_same_generator_draws_the_same() -> None:
    rows = np.log(np.tile(SCORES, (50, 1)))
    once, again = (by_threshold(0.1)(rows, np.random.default_rng(3)) for _ in range(2))
    assert once.tolist() == again.tolist()
