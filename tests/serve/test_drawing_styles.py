"""Styles, colours, sizes and what is said about text that was cut or left out."""

import pytest
from PIL import Image, ImageChops

from memeloom.catalog.records import TemplateBox, TextStyle
from memeloom.configs.errors import MemeloomError
from memeloom.serve.drawing.draw import Drawing, DrawOptions, draw
from memeloom.serve.drawing.pictures import Picture

GREY, WHITE, BLACK = (120, 130, 140), (255, 255, 255), (0, 0, 0)
BOX = TemplateBox(x=0.1, y=0.2, width=0.5, height=0.3)
SIGN = TextStyle(colour="#cc0000", outline=None, capitals=False)


def picture(colour: tuple[int, int, int] = GREY, size: tuple[int, int] = (400, 300)) -> Picture:
    return Picture.of(Image.new("RGB", size, colour))


def drawn(text: str, box: TemplateBox = BOX, ground: tuple[int, int, int] = GREY, **options: object) -> Image.Image:
    return draw(picture(ground), [box], [text], DrawOptions(**options)).frames[0]  # type: ignore[arg-type]


def has(image: Image.Image, colour: tuple[int, int, int]) -> bool:
    """Whether a good part of the picture has the colour."""
    return {shade: n for n, shade in image.getcolors(1 << 20) or []}.get(colour, 0) > 100


def place(image: Image.Image, ground: tuple[int, int, int] = GREY) -> tuple[int, int, int, int]:
    box = ImageChops.difference(image, Image.new("RGB", image.size, ground)).getbbox()
    assert box is not None, "nothing was drawn"
    return box


def test_a_box_is_drawn_in_its_own_style() -> None:
    image = drawn("a sign", BOX.model_copy(update={"style": SIGN}))
    assert has(image, (204, 0, 0))
    assert not has(image, BLACK)
    outlined = SIGN.model_copy(update={"outline": "#00ff00"})
    assert has(drawn("a sign", BOX.model_copy(update={"style": outlined})), (0, 255, 0))


@pytest.mark.parametrize(("align", "side"), [("left", 0), ("right", 2)])
def test_lines_are_aligned_as_the_box_says(align: str, side: int) -> None:
    style = TextStyle.model_validate({"colour": "#ffffff", "capitals": True, "align": align})
    box = BOX.model_copy(update={"style": style})
    edge = (0.1 * 400, 0, 0.6 * 400)[side]
    assert abs(place(drawn("ab\nabcdefghijkl", box))[side] - edge) <= 4
    first_line = drawn("ab\nabcdefghijkl", box).crop((0, 0, 400, 100))
    assert abs(place(first_line)[side] - edge) <= 4


@pytest.mark.parametrize(
    ("style", "capitals", "same_as"),
    [
        (None, None, "SOME Text TWICE"), (None, False, "some Text twice"), (SIGN, None, "some Text twice"),
        (SIGN, True, "SOME Text TWICE"),
    ],
)  # fmt: skip
def test_capitals_are_the_boxs_or_those_asked_for(style: TextStyle | None, capitals: bool | None, same_as: str) -> None:
    box = BOX.model_copy(update={"style": style})
    expected = same_as.upper() if same_as[:4].isupper() else same_as
    assert drawn("some Text twice", box, capitals=capitals) == drawn(expected, box, capitals=False)


def test_greek_capitals_lose_their_accents_and_others_keep_them() -> None:
    assert drawn("Ωραία ιδέα") == drawn("ΩΡΑΙΑ ΙΔΕΑ", capitals=False)
    assert drawn("déjà vu") == drawn("DÉJÀ VU", capitals=False)


def test_a_box_may_ask_for_small_or_alternating_letters() -> None:
    box = BOX.model_copy(update={"style": SIGN})
    for letters, expected in (("lower", "some text"), ("mock", "sOmE TeXt")):
        styled = box.model_copy(update={"style": SIGN.model_copy(update={"letters": letters})})
        assert drawn("Some TEXT", styled) == drawn(expected, box)


def test_the_size_of_learned_letters_limits_the_size_of_drawn_ones() -> None:
    small = BOX.model_copy(update={"style": TextStyle(size=0.04, colour="#ffffff", capitals=True)})
    _, top, _, bottom = place(drawn("hi", small))
    assert bottom - top <= 0.04 * 300 * 1.2 + 3
    assert bottom - top >= 0.04 * 300 * 0.7


def test_text_on_a_sign_is_black_without_an_outline_and_on_a_white_picture_it_is_not() -> None:
    white = picture(WHITE)
    sign = draw(white, [BOX], ["a sign"]).frames[0]
    assert has(sign, BLACK)
    wide = TemplateBox(x=0.0, y=0.0, width=1.0, height=0.3)
    outlined = draw(white, [wide], ["a caption"]).frames[0]
    inside = place(outlined, WHITE)
    assert (outlined.crop(inside).getcolors(1 << 20) or [])[0]
    letters = {shade for _, shade in draw(picture(), [wide], ["a caption"]).frames[0].getcolors(1 << 20) or []}
    assert {WHITE, BLACK} <= letters


def test_plain_text_has_no_outline_and_stands_out() -> None:
    for ground, letters, not_there in ((BLACK, WHITE, GREY), (WHITE, BLACK, GREY)):
        image = drawn("plain", ground=ground, style="plain")
        assert has(image, letters)
        assert not has(image, not_there)


def test_a_bar_is_added_above_the_picture() -> None:
    image = draw(picture(), [], ["when you test", "and it works"], DrawOptions(style="bar")).frames[0]
    assert image.width == 400
    tall = image.height - 300
    assert 20 < tall < 0.75 * 300
    assert image.crop((0, tall, 400, tall + 300)) == picture().frames[0]
    bar = image.crop((0, 0, 400, tall))
    assert has(bar, WHITE)
    assert has(bar, BLACK)
    short = draw(picture(), [], ["when"], DrawOptions(style="bar")).frames[0]
    assert short.height < image.height


def test_colours_asked_for_win() -> None:
    box = BOX.model_copy(update={"style": SIGN})
    assert has(drawn("gold", box, colours=["gold"]), (255, 215, 0))
    assert has(drawn("hex", BOX, colours=["00ff00"]), (0, 255, 0))
    assert has(drawn("default", box, colours=[None]), (204, 0, 0))
    assert has(drawn("bar", style="bar", colours=["navy"]), (0, 0, 128))


@pytest.mark.parametrize(
    ("size", "expected"),
    [((200, 0), (200, 150)), ((0, 600), (800, 600)), ((500, 500), (500, 500)), ((64, 90), (64, 90))],
)
def test_pictures_get_the_size_asked_for(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert drawn("text", size=size).size == expected
    assert drawn("text", size=size, style="bar").size[0] == expected[0]


def test_a_padded_picture_is_on_its_own_blur() -> None:
    padded = drawn("text", size=(400, 600))
    red, green, blue = padded.getpixel((200, 10))  # type: ignore[misc]
    assert (red, green, blue) == pytest.approx(tuple(0.4 * shade for shade in GREY), abs=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"font": "comic sans of my own"}, "no such font: 'comic sans of my own'"),
        ({"colours": ["reddish"]}, "no such colour: 'reddish'"),
        ({"size": (90_000, 0)}, "5000 a side at most"), ({"size": (0, 90_000)}, "5000 a side at most"),
        ({"size": (-5, 0)}, "cannot be drawn"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_one_clear_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(MemeloomError) as refused:
        drawn("text", **options)  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_box_whose_font_is_not_installed_is_drawn_in_the_default() -> None:
    strange = SIGN.model_copy(update={"font": "a font that nobody has"})
    assert drawn("text", BOX.model_copy(update={"style": strange})) == drawn(
        "text", BOX.model_copy(update={"style": SIGN})
    )


def facts(drawing: Drawing) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return drawing.cut, drawing.missing


def test_cut_texts_and_missing_letters_are_named() -> None:
    tiny = TemplateBox(x=0.4, y=0.4, width=0.1, height=0.05)
    assert facts(draw(picture(), [BOX, tiny], ["fits", "far too long for this small box " * 9])) == ((1,), ())
    assert facts(draw(picture(), [BOX, tiny], ["fits", ""])) == ((), ())
    assert facts(draw(picture(), [BOX], ["\ue000 private \ue001\ue000"])) == ((), ("\ue000", "\ue001"))
    none = TemplateBox(x=0.4, y=0.4, width=0.1, height=0.001)
    assert facts(draw(picture(), [none], ["no room"])) == ((0,), ())
    assert facts(draw(picture(), [], ["word " * 2000], DrawOptions(style="bar"))) == ((0,), ())


def test_a_box_that_leaves_the_picture_is_clipped_to_it() -> None:
    beyond = TemplateBox(x=0.6, y=0.5, width=0.8, height=0.3)
    left, _, right, _ = place(drawn("all of it can be read", beyond))
    assert left >= 0.6 * 400
    assert right <= 400 - 2


def test_a_word_is_made_smaller_before_it_is_broken() -> None:
    narrow = TemplateBox(x=0.1, y=0.1, width=0.15, height=0.8)
    left, top, right, bottom = place(drawn("to congratulations", narrow))
    (_, first, _, _) = place(drawn("congratulations", narrow))
    assert right - left >= 0.7 * 0.15 * 400
    assert bottom - top < 0.4 * 300, "two lines: the word is not broken into several"
    assert first > top
