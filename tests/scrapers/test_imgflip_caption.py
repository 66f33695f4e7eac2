"""Captions from Imgflip's alt texts: what is knowable is right, and no character gets lost."""

import pytest

from memeloom.scrapers.sources.imgflip.caption import Caption, parse_alt, split_boxes

TAIL = " | image tagged in memes,drake | made w/ Imgflip meme maker"


LONG = "me | also me; both"
TAGS = "what is | image tagged in | made w/ love"


@pytest.mark.parametrize(
    ("alt", "title", "caption"),
    [
        (f"Drake |  NO; YES{TAIL}", None, Caption("Drake", ("NO", "YES"))),
        (f"{LONG} |  TOP; BOTTOM{TAIL}", LONG, Caption(LONG, ("TOP", "BOTTOM"))),
        (f"T |  {TAGS}; B{TAIL}", None, Caption("T", (TAGS, "B"))),
        (f"Drake{TAIL}", "Drake", Caption("Drake", ())),
        (f"Drake | {TAIL}", "Drake", Caption("Drake", ())),
        ("", None, None),
        ("just some picture", None, None),
    ],
    ids=["title from the text", "separator in a title", "tail in a box", "none", "empty caption", "empty", "other"],
)
def test_alt_text_is_split_into_title_and_boxes(alt: str, title: str | None, caption: Caption | None) -> None:
    assert parse_alt(alt, title, box_count=2) == caption


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
        # https://imgflip.com/i/xfdz6
        (
            "POT SAVES LIVES; ; ZOMBIES CAN'T BITE THROUGH THEM.",
            2,
            ("POT SAVES LIVES", "ZOMBIES CAN'T BITE THROUGH THEM."),
        ),
        ("A; B; ; C; ", 2, ("A", "B; C")),
        ("; ; A; B", 2, ("A", "B")),
        ("", 2, ()),
        (" ;  ", 2, ()),
    ],
)
def test_boxes_are_split_by_the_template_s_number_of_boxes(
    text: str, box_count: int | None, boxes: tuple[str, ...]
) -> None:
    assert split_boxes(text, box_count) == boxes


@pytest.mark.parametrize("box_count", [None, 1, 2, 3, 5])
def test_splitting_loses_no_character(box_count: int | None) -> None:
    text = "one; two;three | four;; five\nsix; ;) seven"
    assert "; ".join(split_boxes(text, box_count)) == text
