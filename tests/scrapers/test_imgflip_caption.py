"""Captions from Imgflip's alt texts: what is knowable is right, and no character gets lost."""

import json
from pathlib import Path

import pytest

from memeloom.scrapers.pages.imgflip_caption import parse_alt, split_boxes

TAIL = " | image tagged in memes,drake | made w/ Imgflip meme maker"


def test_title_boxes_and_tags_are_told_apart() -> None:
    caption = parse_alt(f"Drake |  NO; YES{TAIL}", box_count=2)
    assert caption is not None
    assert (caption.title, caption.boxes) == ("Drake", ("NO", "YES"))


@pytest.mark.parametrize(
    ("text", "box_count", "boxes"),
    [
        ("A; B", 2, ("A", "B")),
        ("ONLY ONE WAS FILLED", 2, ("ONLY ONE WAS FILLED",)),
        ("A; B; C", 2, ("A", "B; C")),
        ("A; B; C", 1, ("A; B; C",)),
        ("A; B; C", None, ("A", "B", "C")),
        ("A;B", 2, ("A;B",)),
        ("WINK ;); B", 2, ("WINK ;)", "B")),
        ("TWO\nLINES; B | C", 2, ("TWO\nLINES", "B | C")),
        ("; BOTTOM", 2, ("BOTTOM",)),
        ("TOP; ", 2, ("TOP",)),
        ("", 2, ()),
        (" ;  ", 2, ()),
    ],
)
def test_boxes_by_the_number_that_the_template_has(text: str, box_count: int | None, boxes: tuple[str, ...]) -> None:
    assert split_boxes(text, box_count) == boxes


@pytest.mark.parametrize("box_count", [None, 1, 2, 3, 5])
def test_splitting_loses_no_character(box_count: int | None) -> None:
    text = "one; two;three | four;; five\nsix; ;) seven"
    assert "; ".join(split_boxes(text, box_count)) == text


def test_a_title_that_holds_the_separator_is_cut_off_exactly_when_the_page_names_it() -> None:
    caption = parse_alt(f"me | also me; both |  TOP; BOTTOM{TAIL}", title="me | also me; both", box_count=2)
    assert caption is not None
    assert (caption.title, caption.boxes) == ("me | also me; both", ("TOP", "BOTTOM"))


def test_a_box_may_quote_the_tail() -> None:
    caption = parse_alt(f"T |  what is | image tagged in | made w/ love; B{TAIL}", box_count=2)
    assert caption is not None
    assert caption.boxes == ("what is | image tagged in | made w/ love", "B")


@pytest.mark.parametrize("alt", [f"Drake{TAIL}", f"Drake | {TAIL}"])
def test_a_meme_without_text_has_no_boxes(alt: str) -> None:
    caption = parse_alt(alt, title="Drake")
    assert caption is not None
    assert (caption.title, caption.boxes) == ("Drake", ())


def test_text_that_does_not_follow_the_grammar_is_no_caption() -> None:
    assert parse_alt("") is None
    assert parse_alt("just some picture") is None


def test_real_alt_texts_are_read(real_data: Path) -> None:
    real = json.loads((real_data / "pages" / "imgflip" / "alt_strings_real.json").read_text())
    captions = {entry["src"]: parse_alt(entry.get("alt") or entry["alt_tail"], box_count=2) for entry in real}
    assert None not in captions.values()
    chuck = captions["//i.imgflip.com/634az4.jpg"]
    assert chuck is not None
    assert chuck.title == "He Ain't No Comedian"
    assert chuck.boxes == ("CHUCK NORRIS CAN'T TELL JOKES", "CAUSE NO ONE WOULD SURVIVE THE PUNCHLINE")
    assert all(caption and caption.boxes for caption in captions.values())
