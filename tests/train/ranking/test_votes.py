"""Votes are learned from words, not from who saw them or when."""

import random

import numpy as np
import pytest

from memeloom.dataset.schema import DatasetRecord
from memeloom.train.ranking.training import texts_of_records
from memeloom.train.ranking.votes import Popularity, clear_pairs, fit_votes, vote_features
from memeloom.train.ranking.words import Text, hash_words
from tests.train.ranking.records import planted_records, record


def promised(records: list[DatasetRecord], *captions: str) -> list[float]:
    weights = fit_votes(hash_words(texts_of_records(records)), Popularity.of(records))
    assert weights is not None
    words = hash_words([Text("doge", (caption,)) for caption in captions])
    return [float(votes) for votes in vote_features(words).dot(weights)]


def cake_is_liked(words: list[str], rng: random.Random) -> tuple[int, int, int]:
    return rng.randint(0, 4) + 30 * ("cake" in words), rng.randint(50, 90), rng.randint(0, 999)


def old_and_seen(words: list[str], rng: random.Random) -> tuple[int, int, int]:
    """Captions with "cake" are older and seen more, and votes follow from that alone; "snow" is liked a little."""
    cake = "cake" in words
    posted_at, views = rng.randint(0, 600) + 400 * (not cake), rng.randint(50, 500) * (4 if cake else 1)
    return round(0.05 * views + (1000 - posted_at) / 50) + 4 * ("snow" in words), views, posted_at


def test_what_people_vote_for_is_learned() -> None:
    liked, other = promised(planted_records(2000, cake_is_liked), "tea and cake today", "tea and mail today")
    assert liked > other + 1


def test_views_and_age_are_controlled_for() -> None:
    records = planted_records(4000, old_and_seen)
    blind = [each._replace(views=None, posted_at=None) for each in records]
    cake, snow, neither = promised(blind, "rain cake road", "rain snow road", "rain door road")
    assert cake > snow > neither
    cake, snow, neither = promised(records, "rain cake road", "rain snow road", "rain door road")
    assert snow > neither
    assert snow > cake + 2 * abs(cake - neither)


def test_the_number_in_an_id_stands_for_an_unknown_time() -> None:
    records = [record(0, "doge", "a", votes=1)._replace(id=f"imgflip:{name}") for name in ("zz", "101", "9")]
    assert np.argsort(Popularity.of(records).age).tolist() == [2, 0, 1]
    dated = [each._replace(posted_at=when) for each, when in zip(records, (3, 1, 2), strict=True)]
    assert np.argsort(Popularity.of(dated).age).tolist() == [1, 2, 0]
    odd = [*records, record(3, "doge", "a", votes=1)._replace(id="imgflip:a_b")]
    assert np.isnan(Popularity.of(odd).age).all()


def test_nothing_is_learned_without_votes_or_from_equal_ones() -> None:
    none = planted_records(300, lambda _words, _rng: (None, None, None))
    for records in (none, [each._replace(score=3) for each in none]):
        assert fit_votes(hash_words(texts_of_records(records)), Popularity.of(records)) is None


@pytest.mark.parametrize(
    ("votes", "expected"),
    [((10, 5), True), ((10, 6), False), ((4, 0), False), ((5, 0), True), ((100, 60), False), ((None, 9), False)],
)
def test_pairs_are_clearly_apart_with_twice_the_votes_and_five_more(
    votes: tuple[int | None, int], expected: bool
) -> None:
    records = [record(number, "doge", "a", votes=each) for number, each in enumerate(votes)]
    pairs = clear_pairs(Popularity.of(records), 50, seed=1)
    assert set(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == ({(0, 1)} if expected else set())


def test_pairs_are_of_one_template() -> None:
    records = planted_records(300, cake_is_liked)
    pairs = clear_pairs(Popularity.of(records), 500, seed=1)
    assert len(pairs.better) > 20
    for one, other in zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True):
        assert records[one].template == records[other].template
