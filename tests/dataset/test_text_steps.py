"""The text steps: what each changes, what it drops, and the reason that it gives."""

from collections.abc import Callable

import pytest

from catalog.records import Image, Meme, Ocr, OcrBox, Template, TemplateBox
from dataset.steps.contract import Caption, Drop, Keep, Step, apply_steps, caption_of
from dataset.steps.text import (
    collapse_whitespace,
    forbid_control_characters,
    forbid_empty_boxes,
    forbid_over_18,
    forbid_separator,
    limit_length,
    limit_picture,
    lower_case,
    require_ascii,
    require_box_count,
    require_text,
)


def caption(*boxes: str, over_18: bool = False) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes, over_18, "")


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (collapse_whitespace, ("  one \t\n two ", "\u00a0three\u2003four\r\n"), ("one two", "three four")),
        (collapse_whitespace, ("", " "), ("", "")),
        (lower_case, ("SHOUTING", "ÄÖ Σ"), ("shouting", "äö σ")),
    ],
)
def test_a_step_changes_each_box(step: Step, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert step(caption(*before)) == Keep(caption(*after))


@pytest.mark.parametrize(
    ("step", "boxes", "reason"),
    [
        (require_text, (), "no caption"),
        (require_text, ("",), "empty caption"),
        (require_text, ("", " \n"), "empty caption"),
        (forbid_separator("|"), ("fine", "this | not"), "separator"),
        (forbid_separator(";"), ("this ; not",), "separator"),
        (require_ascii, ("naïve",), "characters"),
        (require_ascii, ("tab\there",), "characters"),
        (require_ascii, ("bell\x07",), "characters"),
        (require_ascii, ("delete\x7f",), "characters"),
        (require_ascii, ("ok", "🙂"), "characters"),
        (forbid_control_characters, ("line\nbreak",), "characters"),
        (forbid_control_characters, ("half \ud83d of it",), "characters"),
        (forbid_empty_boxes, ("", "the other box"), "empty box"),
        (forbid_empty_boxes, ("one", " \t"), "empty box"),
        (limit_length(10, 82), ("123456789",), "too short"),
        (limit_length(10, 82), ("12345", "6789"), "too short"),
        (limit_length(10, 82), ("a" * 83,), "too long"),
        (limit_length(10, 82), ("a" * 41, "a" * 42), "too long"),
    ],
)
def test_a_step_drops_and_says_why(step: Step, boxes: tuple[str, ...], reason: str) -> None:
    assert step(caption(*boxes)) == Drop(reason)


@pytest.mark.parametrize(
    ("step", "boxes"),
    [
        (require_text, ("", "the other box was left out")),
        (forbid_separator("|"), ("one; two", "three/four")),
        (require_ascii, (" !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",)),
        (forbid_control_characters, ("naïve 👩\u200d🚀 中文",)),
        (forbid_empty_boxes, ("one", "two")),
        (require_box_count, ("nobody", "knows", "how many")),
        (limit_length(10, 82), ("1234567890",)),
        (limit_length(10, 82), ("a" * 41, "a" * 41)),
    ],
)
def test_a_step_keeps_what_is_fine(step: Step, boxes: tuple[str, ...]) -> None:
    assert step(caption(*boxes)) == Keep(caption(*boxes))


def test_nsfw_is_what_its_site_marks() -> None:
    assert forbid_over_18(caption("fine", over_18=True)) == Drop("nsfw")
    assert forbid_over_18(caption("fine")) == Keep(caption("fine"))


@pytest.mark.parametrize(("boxes", "reason"), [(1, "box count"), (2, None), (3, "box count")])
def test_a_caption_has_as_many_boxes_as_its_template(boxes: int, reason: str | None) -> None:
    text = caption(*["text"] * boxes)._replace(box_count=2)
    assert require_box_count(text) == (Drop(reason) if reason else Keep(text))


@pytest.mark.parametrize(
    ("width", "height", "reason"),
    [
        (100, 400, None),
        (400, 100, None),
        (99, 99, "picture too small"),
        (0, 0, "picture too small"),
        (100, 401, "picture too long"),
        (401, 100, "picture too long"),
    ],
)
def test_a_picture_is_large_and_square_enough(width: int, height: int, reason: str | None) -> None:
    text = caption("text")._replace(width=width, height=height)
    assert limit_picture(100, 4.0)(text) == (Drop(reason) if reason else Keep(text))


def test_other_boxes_are_all_that_changes() -> None:
    whole = Caption("a:1", "a", "t", "Name", "slug", ("one",), True, "k" * 64, 30, 20, 2)
    assert whole.with_boxes(("two", "")) == whole._replace(boxes=("two", ""))


def test_a_caption_knows_its_picture_and_how_many_boxes_its_template_has(meme: Callable[..., Meme]) -> None:
    key = "a" * 64
    picture = Image(key=key, width=30, height=20, format="png", bytes=9, phash64="0" * 16, phash256="0" * 64)
    template = Template(id="t1", slug="t", name="T", source="imgflip", box_count=3)
    outcome = caption_of(meme("1", "text", image=picture), template)
    assert isinstance(outcome, Keep)
    assert (outcome.caption.image_key, outcome.caption.width, outcome.caption.height) == (key, 30, 20)
    assert outcome.caption.box_count == 3
    placed = template.model_copy(update={"box_count": None, "boxes": (TemplateBox(x=0, y=0, width=1, height=1),)})
    for record, count in ((placed, 1), (placed.model_copy(update={"boxes": ()}), None), (None, None)):
        outcome = caption_of(meme("1", "text"), record)
        assert isinstance(outcome, Keep)
        assert outcome.caption.box_count == count


def test_steps_run_in_their_order_and_the_first_drop_ends_them() -> None:
    padded = caption("  A B  ")
    assert apply_steps([limit_length(5, 9), collapse_whitespace, lower_case], padded) == Keep(caption("a b"))
    assert apply_steps([collapse_whitespace, limit_length(5, 9), lower_case], padded) == Drop("too short")


def test_a_meme_without_a_template_is_dropped(meme: Callable[..., Meme]) -> None:
    assert caption_of(meme("1", "text", template="t").model_copy(update={"template": None})) == Drop("no template")


def test_a_caption_is_what_the_page_states_else_what_was_read(meme: Callable[..., Meme]) -> None:
    box = OcrBox(text="as read", x=0, y=0, width=1, height=1, confidence=90)
    ocr = Ocr(text="as read", boxes=(box,), confidence=90, engine="tesseract")
    stated = caption_of(meme("1", "as stated", ocr=ocr, over_18=True))
    assert isinstance(stated, Keep)
    assert stated.caption == Caption(
        "imgflip:1", "imgflip", "t1", "Name t1", "slug-t1", ("as stated",), over_18=True, image_key=""
    )
    read = caption_of(meme("1", ocr=ocr))
    assert isinstance(read, Keep)
    assert read.caption.boxes == ("as read",)
    dropped = caption_of(meme("1", ocr=ocr.model_copy(update={"dropped": "too much text"})))
    assert isinstance(dropped, Keep)
    assert require_text(dropped.caption) == Drop("no caption")
