"""The split depends on the caption alone, and has about the shares of the settings."""

from collections import Counter

import pytest

from memeloom.configs.schema import Split
from memeloom.dataset.split import Splitter


def splitter(validation: float = 0.05, test: float = 0.05, salt: str = "memeloom") -> Splitter:
    shares = {"by": "caption", "validation": validation, "test": test, "salt": salt}
    return Splitter(Split.model_validate({**shares, "validation_from": None, "test_from": None}))


def test_the_place_of_a_caption_never_changes() -> None:
    # A literal, to notice a change of the hash, which would move every caption.
    place = splitter().place("61579", ["one does not simply", "split twice"])
    assert (place.split, place.order.hex()) == ("train", "69d19642c341a9e0f50119c5ce5bcf76")


@pytest.mark.parametrize(
    "boxes",
    [
        ("ONE DOES NOT SIMPLY", "Split Twice"),
        ("  one  does not\tsimply", "split twice\n"),
        ("one does not", "simply split twice"),
        ("one does not simply split twice", ""),
    ],
)
def test_case_spacing_and_boxes_make_no_difference(boxes: tuple[str, ...]) -> None:
    assert splitter().place("t", boxes) == splitter().place("t", ("one does not simply", "split twice"))


def test_words_template_and_salt_make_a_difference() -> None:
    places = {
        splitter().place("t", ["some words"]).order,
        splitter().place("t", ["some other words"]).order,
        splitter().place("u", ["some words"]).order,
        splitter(salt="pepper").place("t", ["some words"]).order,
    }
    assert len(places) == 4


@pytest.mark.parametrize(("validation", "test"), [(0.05, 0.05), (0.2, 0.0), (0.0, 0.0), (0.3, 0.3)])
def test_shares_are_those_of_the_settings_all_along_the_order(validation: float, test: float) -> None:
    split = splitter(validation, test)
    places = sorted((split.place("t", [f"caption {n}"]) for n in range(20_000)), key=lambda place: place.order)
    for half in (places[:10_000], places[10_000:]):
        found = Counter(place.split for place in half)
        assert found["validation"] / 10_000 == pytest.approx(validation, abs=0.015)
        assert found["test"] / 10_000 == pytest.approx(test, abs=0.015)


def test_a_larger_validation_share_only_takes_from_training() -> None:
    before, after = splitter(0.05, 0.05), splitter(0.10, 0.05)
    moves = Counter(
        (before.place("t", [f"caption {n}"]).split, after.place("t", [f"caption {n}"]).split) for n in range(5000)
    )
    assert set(moves) == {("train", "train"), ("train", "validation"), ("validation", "validation"), ("test", "test")}
