"""What people like is shown more and more often, and nothing is forgotten."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from bench.feedback import PAGE, Uniform, replay
from memeloom.catalog.feed import FeedMeme, Sums, meme_id
from memeloom.serve.feed.bandit import FLOOR, Bandit

ROUNDS, TEMPLATES = 120, 20


def meme(template: str, text: str, arm: str = "") -> FeedMeme:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return FeedMeme(
        id=meme_id(template, [text]), template=template, boxes=(text,), model="m", arm=arm, score=0.1, written_at=now
    )


def chosen_first(bandit: Bandit, candidates: list[FeedMeme], draws: int = 200) -> list[float]:
    """Return how often each candidate takes the first place."""
    rng = np.random.default_rng(1)
    first = [bandit.choose(candidates, 1, rng)[0] for _ in range(draws)]
    return [first.count(place) / draws for place in range(len(candidates))]


def test_regret_falls_and_no_template_starves() -> None:
    uniform, learned = replay(Uniform(), ROUNDS, seed=1), replay(Bandit(), ROUNDS, seed=1)
    early, late = learned.regret[:10].mean(), learned.regret[-10:].mean()
    assert late < 0.6 * early
    assert late < 0.6 * uniform.regret[-10:].mean()
    assert learned.regret.sum() < 0.75 * uniform.regret.sum()
    # Half of what is expected of the floor alone, which is far above what chance would leave to a template.
    assert learned.shown.min() >= 0.5 * FLOOR * ROUNDS * PAGE / TEMPLATES


def test_sums_replace_those_before_in_any_order_and_as_often_as_they_come() -> None:
    rng = np.random.default_rng(1)
    memes = [meme(str(at % 5), f"some words {at % 7} and {at % 3}?") for at in range(40)]
    rows = [(each, Sums(int(rng.integers(5)), int(rng.integers(5)), 12)) for each in memes]
    outdated = [(each, replace(sums, likes=9, dislikes=9)) for each, sums in rows]
    straight, winding = Bandit(), Bandit()
    straight.learn(rows)
    for part in (outdated, rows[::-1], [], rows, iter(rows[:7])):
        winding.learn(part)
    assert chosen_first(straight, memes) == pytest.approx(chosen_first(winding, memes), abs=0.1)
    taken_back = Bandit()
    taken_back.learn(rows)
    taken_back.learn([(each, Sums()) for each in memes])
    assert max(chosen_first(taken_back, memes)) < 0.2


def test_a_meme_that_is_liked_is_shown_before_one_that_is_passed_by_or_disliked() -> None:
    liked, passed, disliked = (meme(name, "same words") for name in ("a", "b", "c"))
    bandit = Bandit()
    bandit.learn([(liked, Sums(20, 2, 60)), (passed, Sums(2, 2, 60)), (disliked, Sums(2, 20, 60))])
    for better, worse in ((liked, passed), (liked, disliked), (passed, disliked)):
        assert chosen_first(bandit, [worse, better])[1] > 0.6


def test_one_model_may_be_liked_on_some_templates_only() -> None:
    bandit = Bandit()
    tastes = {("a", "one"): 0.9, ("a", "two"): 0.1, ("b", "one"): 0.1, ("b", "two"): 0.9}
    bandit.learn([
        (meme(template, f"text {at}", arm), Sums(round(40 * rate), round(40 * (1 - rate))))
        for (template, arm), rate in tastes.items() for at in range(5)
    ])  # fmt: skip
    for template, better in (("a", "one"), ("b", "two")):
        shares = chosen_first(bandit, [meme(template, "new", "one"), meme(template, "new", "two")])
        assert shares[["one", "two"].index(better)] > 0.8


def test_each_candidate_is_chosen_once_and_no_more_than_there_are() -> None:
    candidates = [meme(str(at), f"words {at}") for at in range(6)]
    rng = np.random.default_rng(1)
    assert sorted(Bandit().choose(candidates, 10, rng)) == list(range(6))
    assert Bandit().choose([], 3, rng) == []
    assert Bandit().choose(candidates, 0, rng) == []
    assert len(Bandit().choose([meme("1", "")], 1, rng)) == 1


def test_more_features_than_columns_share_them() -> None:
    bandit = Bandit()
    bandit.learn((meme(f"template {at}", "a text"), Sums(at % 2, 1 - at % 2)) for at in range(2500))
    assert (
        len(
            bandit.choose(
                [meme(f"template {at}", "a text") for at in range(2400, 2600)], PAGE, np.random.default_rng(1)
            )
        )
        == PAGE
    )
