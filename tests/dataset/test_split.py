"""The split: by the caption alone, stable when data is added, near the shares that were asked for."""

from collections import Counter
from typing import Any

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Split
from memeloom.dataset.split import Splitter


def settings(**changes: Any) -> Split:
    usual = {"by": "caption", "validation": 0.05, "test": 0.05, "salt": "m", "validation_from": None, "test_from": None}
    return Split.model_validate(usual | changes)


def splitter(validation: float = 0.05, test: float = 0.05, salt: str = "memeloom") -> Splitter:
    return Splitter(settings(validation=validation, test=test, salt=salt))


def test_a_caption_always_has_the_same_place() -> None:
    # Written down, so that a change of the hash, which would move every caption, is noticed.
    place = splitter().place("61579", ["one does not simply", "split twice"])
    assert place == splitter().place("61579", ["one does not simply", "split twice"])
    assert place.split == "train"
    assert place.order.hex() == "69d19642c341a9e0f50119c5ce5bcf76"


@pytest.mark.parametrize(
    "boxes",
    [
        ("ONE DOES NOT SIMPLY", "Split Twice"),
        ("  one  does not\tsimply", "split twice\n"),
        ("one does not", "simply split twice"),
        ("one does not simply split twice", ""),
    ],
)
def test_the_same_words_have_the_same_place(boxes: tuple[str, ...]) -> None:
    assert splitter().place("t", boxes) == splitter().place("t", ("one does not simply", "split twice"))


def test_other_words_templates_and_salts_have_other_places() -> None:
    places = {
        splitter().place("t", ["some words"]).order,
        splitter().place("t", ["some other words"]).order,
        splitter().place("u", ["some words"]).order,
        splitter(salt="pepper").place("t", ["some words"]).order,
    }
    assert len(places) == 4


@pytest.mark.parametrize(("validation", "test"), [(0.05, 0.05), (0.2, 0.0), (0.0, 0.0), (0.3, 0.3)])
def test_the_shares_are_those_that_were_asked_for(validation: float, test: float) -> None:
    split = splitter(validation, test)
    found = Counter(split.place("t", [f"caption {n}"]).split for n in range(20_000))
    assert found["validation"] / 20_000 == pytest.approx(validation, abs=0.012)
    assert found["test"] / 20_000 == pytest.approx(test, abs=0.012)


def test_a_larger_validation_share_only_takes_from_training() -> None:
    before, after = splitter(0.05, 0.05), splitter(0.10, 0.05)
    moves = Counter(
        (before.place("t", [f"caption {n}"]).split, after.place("t", [f"caption {n}"]).split) for n in range(5000)
    )
    assert set(moves) == {("train", "train"), ("train", "validation"), ("validation", "validation"), ("test", "test")}


def test_the_order_says_nothing_about_the_split() -> None:
    split = splitter(0.25, 0.25)
    places = sorted((split.place("t", [f"caption {n}"]) for n in range(8000)), key=lambda place: place.order)
    first_half = Counter(place.split for place in places[:4000])
    assert first_half["test"] / 4000 == pytest.approx(0.25, abs=0.03)
    assert first_half["validation"] / 4000 == pytest.approx(0.25, abs=0.03)


def test_nothing_left_to_train_on_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"dataset\.split: validation and test together must stay below 1"):
        splitter(0.5, 0.5)
