"""Captions are white with black outlines, and stay inside their boxes, whatever the text and picture."""

import pytest
from PIL import Image, ImageChops

from memeloom.catalog.records import TemplateBox
from memeloom.serve.drawing.boxes import DEFAULT_BOXES, default_boxes
from memeloom.serve.drawing.draw import draw_caption

GREY = (120, 130, 140)
BOX = TemplateBox(x=0.1, y=0.2, width=0.5, height=0.3)


def blank(width: int = 500, height: int = 400, mode: str = "RGB") -> Image.Image:
    return Image.new("RGB", (width, height), GREY).convert(mode)


def touched(before: Image.Image, after: Image.Image) -> tuple[int, int, int, int] | None:
    """The smallest rectangle that holds every changed pixel."""
    return ImageChops.difference(before.convert("RGB"), after).getbbox()


def pixels(box: TemplateBox, picture: Image.Image) -> tuple[int, int, int, int]:
    left, top = round(box.x * picture.width), round(box.y * picture.height)
    return left, top, left + round(box.width * picture.width), top + round(box.height * picture.height)


def assert_inside(inner: tuple[int, int, int, int] | None, outer: tuple[int, int, int, int]) -> None:
    assert inner is not None, "nothing was drawn"
    assert (min(inner[0], outer[0]), min(inner[1], outer[1])) == outer[:2], inner
    assert (max(inner[2], outer[2]), max(inner[3], outer[3])) == outer[2:], inner


TEXTS = [
    "A",
    "ÀÉÎÕÜ ÇA VA, ŠKODA? ŁÓDŹ\n\ngypsy jogging quickly, (yes) |really|",
    "SUPERCALIFRAGILISTICEXPIALIDOCIOUS" * 3,
    "word " * 60,
    "....,,,,;;;;____",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [(500, 400), (120, 90), (300, 1200)])
def test_text_stays_inside_its_box(text: str, size: tuple[int, int]) -> None:
    picture = blank(*size)
    assert_inside(touched(picture, draw_caption(picture, [BOX], [text])), pixels(BOX, picture))
    for number, box in enumerate(DEFAULT_BOXES):
        assert_inside(touched(picture, draw_caption(picture, [], [""] * number + [text])), pixels(box, picture))


def test_letters_are_white_with_a_black_outline_and_fill_most_of_the_room() -> None:
    picture = blank()
    drawn = draw_caption(picture, [BOX], ["ONE DOES NOT SIMPLY WALK"])
    colours = {colour: count for count, colour in drawn.getcolors(maxcolors=1 << 20) or []}
    assert colours[255, 255, 255] > 1500
    assert colours[0, 0, 0] > 1500
    left, _, right, _ = touched(picture, drawn) or (0, 0, 0, 0)
    room = pixels(BOX, picture)
    assert right - left > 0.75 * (room[2] - room[0])


def test_text_is_centred_in_a_box_amid_the_picture() -> None:
    picture = blank()
    left, top, right, bottom = touched(picture, draw_caption(picture, [BOX], ["HIM"])) or (0, 0, 0, 0)
    room = pixels(BOX, picture)
    assert abs((left + right) - (room[0] + room[2])) <= 6
    assert abs((top + bottom) - (room[1] + room[3])) <= 6


@pytest.mark.parametrize(("word", "width", "lines"), [("CONGRATULATIONS", 0.2, "one"), ("A" * 120, 0.1, "several")])
def test_only_a_word_too_long_for_any_size_is_broken(word: str, width: float, lines: str) -> None:
    picture = blank()
    narrow = TemplateBox(x=0.4, y=0.1, width=width, height=0.8)
    left, top, right, bottom = touched(picture, draw_caption(picture, [narrow], [word])) or (0, 0, 0, 0)
    assert ("one" if bottom - top < (right - left) / 2 else "several") == lines


def test_each_text_goes_to_its_own_box() -> None:
    boxes = [TemplateBox(x=0.05 + 0.32 * n, y=0.3, width=0.26, height=0.3) for n in range(3)]
    picture = blank()
    for number, box in enumerate(boxes):
        texts = [""] * number + ["HERE"]
        assert_inside(touched(picture, draw_caption(picture, boxes, texts)), pixels(box, picture))


def test_more_texts_than_boxes_join_in_the_last_box() -> None:
    picture = blank()
    many = draw_caption(picture, DEFAULT_BOXES, ["ONE", "TWO", "THREE", "FOUR"])
    joined = draw_caption(picture, DEFAULT_BOXES, ["ONE", "TWO THREE FOUR"])
    assert many.tobytes() == joined.tobytes()


@pytest.mark.parametrize("count", [3, 4, 7])
def test_many_texts_without_boxes_get_a_band_each(count: int) -> None:
    picture = blank(600, 900)
    for number, box in enumerate(default_boxes(count)):
        texts = ["SOME WORDS" if n == number else "" for n in range(count)]
        left, top, right, bottom = pixels(box, picture)
        assert_inside(touched(picture, draw_caption(picture, [], texts)), (left, top, right, bottom))
        assert number * 900 / count <= top
        assert bottom <= (number + 1) * 900 / count


@pytest.mark.parametrize("texts", [[], ["", "   \n "], ["\ue000\uf8ff"]])
def test_without_drawable_text_the_picture_stays_as_it_is(texts: list[str]) -> None:
    picture = blank()
    assert touched(picture, draw_caption(picture, [], texts)) is None


def test_accented_letters_are_drawn() -> None:
    picture = blank()
    for letter in "áéíóúñçßøåæœđłşžÀÈŐÜ":
        assert touched(picture, draw_caption(picture, [], [letter])) is not None, letter


@pytest.mark.parametrize("angle", [-30.0, 8.0, 90.0, 360.0])
def test_rotated_text_stays_inside_its_rotated_box(angle: float) -> None:
    picture = blank()
    box = TemplateBox(x=0.3, y=0.35, width=0.4, height=0.3, angle=angle)
    drawn = draw_caption(picture, [box], ["A SIGN THAT HANGS CROOKED ON THE WALL"])
    changed = ImageChops.difference(picture, drawn)
    back = changed.rotate(angle, Image.Resampling.NEAREST, center=(0.5 * 500, 0.5 * 400))
    left, top, right, bottom = pixels(box, picture)
    assert_inside(back.getbbox(), (left - 2, top - 2, right + 2, bottom + 2))


def test_angles_are_clockwise() -> None:
    picture = blank()
    box = TemplateBox(x=0.2, y=0.4, width=0.6, height=0.2, angle=20)
    changed = ImageChops.difference(picture, draw_caption(picture, [box], ["DOWN TO THE RIGHT"])).convert("L")
    left = changed.crop((0, 0, 250, 400)).getbbox() or (0, 0, 0, 0)
    right = changed.crop((250, 0, 500, 400)).getbbox() or (0, 0, 0, 0)
    assert left[1] + left[3] < right[1] + right[3]


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (200, 3), (20, 20)])
def test_tiny_pictures_are_no_error(size: tuple[int, int]) -> None:
    assert draw_caption(blank(*size), [], ["TOP TEXT", "BOTTOM TEXT"]).size == size


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "CMYK", "1", "I;16"])
def test_pictures_of_any_mode_become_rgb(mode: str) -> None:
    picture = blank(mode="L").convert("I").convert("I;16") if mode == "I;16" else blank(mode=mode)
    drawn = draw_caption(picture, [], ["HELLO"])
    assert drawn.mode == "RGB"
    assert drawn.size == picture.size


def test_transparency_becomes_white_and_the_original_is_not_touched() -> None:
    picture = Image.new("RGBA", (100, 100), (255, 0, 0, 0))
    drawn = draw_caption(picture, [], ["", "HELLO"])
    assert drawn.getpixel((50, 10)) == (255, 255, 255)
    assert picture.getpixel((50, 90)) == (255, 0, 0, 0)


def test_a_box_without_room_is_skipped() -> None:
    picture = blank()
    boxes = [TemplateBox(x=0.5, y=0.5, width=0.0, height=0.3), TemplateBox(x=0.5, y=0.5, width=0.3, height=0.004)]
    assert touched(picture, draw_caption(picture, boxes, ["NO ROOM", "NO ROOM"])) is None
