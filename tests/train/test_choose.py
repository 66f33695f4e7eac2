"""Sampling rules, measured against their definitions."""

from collections.abc import Sequence

import numpy as np
import pytest

from memeloom.train.decoding.sampling import Chooser, by_sampling, by_threshold, greedily

SCORES = np.array([0.05, 0.5, 0.15, 0.3], np.float32)
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


def test_min_score_one_always_takes_the_best() -> None:
    assert shares(by_threshold(1.0)) == [0, 1, 0, 0]


def test_min_score_zero_reaches_every_character() -> None:
    assert min(shares(by_threshold(0.0))) > 0.01


def test_sampling_follows_the_probabilities() -> None:
    assert shares(by_sampling()) == pytest.approx(SCORES.tolist(), abs=0.005)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_is_a_power_of_the_probabilities(temperature: float) -> None:
    powers = SCORES.astype(float) ** (1 / temperature)
    assert shares(by_sampling(temperature)) == pytest.approx((powers / powers.sum()).tolist(), abs=0.005)


@pytest.mark.parametrize("temperature", [1e-3, 1e-307, 1e-310, 5e-324])
def test_a_temperature_near_zero_takes_the_best(temperature: float) -> None:
    assert shares(by_sampling(temperature)) == [0, 1, 0, 0]


@pytest.mark.parametrize(("k", "expected"), [(1, [0, 1, 0, 0]), (2, [0, 5 / 8, 0, 3 / 8]), (9, SCORES.tolist())])
def test_top_k_keeps_the_k_likeliest_in_proportion(k: int, expected: list[float]) -> None:
    assert shares(by_sampling(top_k=k)) == pytest.approx(expected, abs=0.005)


def test_top_k_keeps_k_of_equally_likely_tokens() -> None:
    assert sum(share > 0 for share in shares(by_sampling(top_k=2), [0.25] * 4)) == 2


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.4, [0, 1, 0, 0]),
        (0.6, [0, 5 / 8, 0, 3 / 8]),
        (0.9, [0, 50 / 95, 15 / 95, 30 / 95]),
        (1.0, SCORES.tolist()),
    ],
)
def test_top_p_keeps_the_smallest_set_with_that_probability(p: float, expected: list[float]) -> None:
    assert shares(by_sampling(top_p=p)) == pytest.approx(expected, abs=0.005)


def test_temperature_is_applied_before_top_k_and_top_k_before_top_p() -> None:
    # Squared, the best holds 0.68 of all; before that only half.
    assert shares(by_sampling(0.5, top_p=0.65)) == [0, 1, 0, 0]
    # The best holds 0.625 of the best two, of all only half.
    assert shares(by_sampling(top_k=2, top_p=0.62)) == [0, 1, 0, 0]


@pytest.mark.parametrize("choose", EVERY)
def test_tokens_of_probability_zero_are_never_chosen(choose: Chooser) -> None:
    assert shares(choose, [0, 0.5, 0, 0.5])[::2] == [0, 0]


@pytest.mark.parametrize("choose", EVERY)
def test_rows_are_sampled_independently(choose: Chooser) -> None:
    with np.errstate(divide="ignore"):
        certain = np.log(np.eye(7, dtype=np.float32))
    assert choose(certain, np.random.default_rng(1)).tolist() == list(range(7))


@pytest.mark.parametrize("choose", EVERY)
def test_sampling_depends_only_on_the_random_generator(choose: Chooser) -> None:
    rows = np.log(np.tile(SCORES, (50, 1)))
    once, again = (choose(rows, np.random.default_rng(3)) for _ in range(2))
    assert once.tolist() == again.tolist()
