"""The text steps: what each changes, what it drops, and the reason that it gives."""

import pytest

from memeloom.dataset.steps.caption import Caption, Step
from memeloom.dataset.steps.text import (
    collapse_whitespace,
    forbid_empty_boxes,
    forbid_separator,
    limit_characters,
    limit_length,
    limit_picture,
    lower_case,
    require_box_count,
    require_text,
)
from memeloom.engine.steps import Drop, Keep


def caption(*boxes: str) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes)


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (collapse_whitespace(), ("  one \t\n two ", "\u00a0three\u2003four\r\n"), ("one two", "three four")),
        (collapse_whitespace(), ("", " "), ("", "")),
        (lower_case(), ("SHOUTING", "ÄÖ Σ"), ("shouting", "äö σ")),
    ],
)
def test_a_step_changes_each_box(step: Step, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert step(caption(*before)) == Keep(caption(*after))


@pytest.mark.parametrize(
    ("step", "boxes", "reason"),
    [
        (require_text(), (), "no caption"),
        (require_text(), ("", " \n"), "empty caption"),
        (forbid_separator("|"), ("fine", "this | not"), "separator"),
        (limit_characters("ascii"), ("naïve",), "characters"),
        (limit_characters("ascii"), ("tab\there",), "characters"),
        (limit_characters("ascii"), ("delete\x7f",), "characters"),
        (limit_characters("any"), ("line\nbreak",), "characters"),
        (limit_characters("any"), ("half \ud83d of it",), "characters"),
        (forbid_empty_boxes, ("one", " \t"), "empty box"),
        (limit_length(10, 82), ("12345", "6789"), "too short"),
        (limit_length(10, 82), ("a" * 41, "a" * 42), "too long"),
    ],
)
def test_a_step_drops_for_a_reason(step: Step, boxes: tuple[str, ...], reason: str) -> None:
    assert step(caption(*boxes)) == Drop(reason)


@pytest.mark.parametrize(
    ("step", "boxes"),
    [
        (require_text(), ("", "the other box was left out")),
        (forbid_separator("|"), ("one; two", "three/four")),
        (limit_characters("ascii"), (" !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",)),
        (limit_characters("any"), ("naïve 👩\u200d🚀 中文",)),
        (require_box_count, ("nobody", "knows", "how many")),
        (limit_length(10, 82), ("12345", "67890")),
        (limit_length(10, 82), ("a" * 41, "a" * 41)),
    ],
)
def test_a_step_keeps(step: Step, boxes: tuple[str, ...]) -> None:
    assert step(caption(*boxes)) == Keep(caption(*boxes))


@pytest.mark.parametrize(("boxes", "reason"), [(1, "box count"), (2, None), (3, "box count")])
def test_require_box_count(boxes: int, reason: str | None) -> None:
    text = caption(*["text"] * boxes)._replace(box_count=2)
    assert require_box_count(text) == (Drop(reason) if reason else Keep(text))


@pytest.mark.parametrize(
    ("width", "height", "reason"),
    [
        (100, 400, None),
        (400, 100, None),
        (0, 0, "picture too small"),
        (99, 100, "picture too small"),
        (100, 401, "picture too long"),
        (401, 100, "picture too long"),
    ],
)
def test_limit_picture(width: int, height: int, reason: str | None) -> None:
    text = caption("text")._replace(width=width, height=height)
    assert limit_picture(100, 4.0)(text) == (Drop(reason) if reason else Keep(text))


def test_with_boxes_changes_only_the_boxes() -> None:
    whole = Caption("a:1", "a", "t", "Name", "slug", ("one",), "k" * 64, True, 30, 20, 2)
    assert whole.with_boxes(("two", "")) == whole._replace(boxes=("two", ""))
