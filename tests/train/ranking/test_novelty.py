"""Captions of training are recognised, and those that differ from one in a word."""

import pytest

from memeloom.train.ranking.novelty import NEAR, NEW, VERBATIM, Novelty
from memeloom.train.ranking.words import Text

LONG = "when you finally fix the bug at home"
INDEX = Novelty.of([Text("doge", (LONG, "and it's friday")), Text("doge", ("such wow", ""))])


@pytest.mark.parametrize(
    ("boxes", "level"),
    [
        ((LONG, "and it's friday"), VERBATIM),
        ((LONG.upper(), "AND IT'S FRIDAY!!!"), VERBATIM),
        ((f"{LONG} and", "it's friday"), VERBATIM),
        (("such wow",), VERBATIM),
        ((LONG.replace("bug", "car"), "and it's friday"), NEAR),
        ((LONG.replace("bug", "big bug"), "and it's friday"), NEAR),
        ((LONG.replace(" finally", ""), "and it's friday"), NEAR),
        ((LONG.replace("bug", "car").replace("home", "work"), "and it's friday"), NEW),
        (("such doge",), NEW),
        (("",), NEW),
    ],
)
def test_levels(boxes: tuple[str, ...], level: int) -> None:
    for index in (INDEX, Novelty.restored(INDEX.arrays)):
        assert index.levels([Text("grumpy", boxes)]).tolist() == [level]


def test_an_empty_index_knows_nothing() -> None:
    assert Novelty.of([]).levels([Text("doge", (LONG,))]).tolist() == [NEW]
