"""Masks of words: nearly all of their ink, and little beside it."""

import cv2
import numpy as np
import pytest

from memeloom.catalog.records import OcrBox
from memeloom.templates.mask import find_words
from tests.templates.scenes import BLACK, WHITE, YELLOW, CaptionedScene, as_jpeg, scene, write

TEXTS = [("WHEN YOU FINALLY\nFIX THE BUG", 0.5, 0.14), ("AND FIND THREE MORE", 0.5, 0.92)]


def covered(worded: CaptionedScene, mask: np.ndarray) -> tuple[float, float]:
    """Share of the ink that the mask has; share of the mask that is within four pixels of ink."""
    near = cv2.dilate(worded.ink, np.ones((9, 9), np.uint8)) > 0
    return float((mask[worded.ink > 0] > 0).mean()), float(near[mask > 0].mean())


@pytest.mark.parametrize(
    ("colour", "outline"), [(WHITE, BLACK), (BLACK, WHITE), (YELLOW, BLACK), (WHITE, None), ((230, 30, 30), BLACK)]
)
@pytest.mark.parametrize("size", [0.06, 0.13])
def test_letters_and_their_outline_are_masked_and_little_else(
    colour: tuple[int, int, int], outline: tuple[int, int, int] | None, size: float
) -> None:
    worded = write(scene(1), TEXTS, size=size, colour=colour, outline=outline)
    mask = find_words(as_jpeg(worded.picture), worded.boxes).mask
    ink, precise = covered(worded, mask)
    assert ink > 0.98
    assert precise > 0.9


def test_colour_outline_and_height_are_found() -> None:
    worded = write(scene(2, 900, 700), [("LOOK AT THIS", 0.5, 0.2)], size=0.12, colour=YELLOW)
    (ink,) = find_words(worded.picture, worded.boxes).inks
    assert ink is not None
    assert ink.outline is not None
    assert np.abs(ink.colour - YELLOW[::-1]).max() < 20
    assert ink.outline.max() < 40
    assert ink.height == pytest.approx(0.86 * 0.12 * 700, rel=0.2)  # Anton's capitals


def test_lines_of_two_colours_and_their_points_are_masked() -> None:
    first = write(scene(9), [("THE FIRST LINE IS WHITE...", 0.5, 0.42)], size=0.08)
    second = write(first.picture, [("...THE SECOND IS YELLOW!", 0.5, 0.54)], size=0.08, colour=YELLOW)
    both = CaptionedScene(scene(9), second.picture, ())
    (one,), (other,) = first.boxes, second.boxes
    left, right = min(one.x, other.x), max(one.x + one.width, other.x + other.width)
    box = OcrBox(
        text=f"{one.text} {other.text}", x=left, y=one.y, width=right - left, height=other.y + other.height - one.y,
        confidence=90.0,
    )  # fmt: skip
    ink, _ = covered(both, find_words(as_jpeg(both.picture), (box,)).mask)
    assert ink > 0.94


def test_letters_are_found_by_their_outline_on_a_background_of_their_colour() -> None:
    half_white = scene(3)
    half_white[:, 250:] = 255
    worded = write(half_white, [("HALF OF THIS ON WHITE", 0.5, 0.5)], size=0.12)
    ink, _ = covered(worded, find_words(as_jpeg(worded.picture), worded.boxes).mask)
    assert ink > 0.97


def test_the_whole_box_is_masked_where_no_letters_are_found() -> None:
    noise = np.random.default_rng(4).integers(0, 256, (300, 400, 3), np.uint8)
    box = OcrBox(text="CANNOT BE SEEN", x=0.25, y=0.4, width=0.5, height=0.1, confidence=50.0)
    words = find_words(noise, (box,))
    assert words.inks == (None,)
    assert (words.mask[120:150, 100:300] == 255).all()
    assert (words.mask > 0).mean() < 2 * 0.05


def test_boxes_without_text_and_outside_of_the_picture_mask_nothing() -> None:
    picture = scene(5)
    boxes = [
        OcrBox(text=text, x=x, y=0.5, width=width, height=0.2, confidence=0.0)
        for text, x, width in (("", 0.2, 0.5), ("OUT", 1.5, 0.5), ("FLAT", 0.5, 0.0), ("OUT", -2.0, 0.5))
    ]
    words = find_words(picture, boxes)
    assert not words.mask.any()
    assert words.inks == (None,) * 4


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (900, 1), (3, 3), (40, 2000)])
def test_no_picture_is_too_small_or_too_narrow(shape: tuple[int, int]) -> None:
    box = OcrBox(text="WORDS", x=0.0, y=0.0, width=1.0, height=1.0, confidence=1.0)
    assert find_words(np.full((*shape, 3), 128, np.uint8), (box,)).mask.shape == shape


def test_the_glow_of_letters_is_masked() -> None:
    clean = np.full((300, 500, 3), 20, np.uint8)
    written = write(clean, [("GLOWING WORDS", 0.5, 0.5)], size=0.12, colour=YELLOW, outline=None)
    glow = cv2.GaussianBlur(written.ink, (0, 0), 5).astype(np.float32) / 255
    picture = np.maximum(written.picture, (20 + 200 * np.minimum(1.5 * glow, 1))[:, :, None]).astype(np.uint8)
    mask = find_words(as_jpeg(picture), written.boxes).mask
    lit = picture.max(axis=2) > 60
    assert (mask[lit] > 0).mean() > 0.98
    assert (mask > 0).mean() < 2 * lit.mean()


def test_a_dark_shape_beside_outlined_letters_is_no_letter() -> None:
    clean = np.full((300, 500, 3), 150, np.uint8)
    cv2.ellipse(clean, (250, 300), (200, 130), 0, 180, 360, (20, 20, 20), -1)
    texts = [("REALLY?", 0.5, 0.8)]
    worded, alone = (write(ground, texts, size=0.2) for ground in (clean, np.full_like(clean, 150)))
    ink, precise = covered(alone, find_words(as_jpeg(worded.picture), worded.boxes).mask)
    assert ink > 0.98
    assert precise > 0.9


def test_a_soft_shadow_on_a_motley_picture_is_in_the_wide_mask() -> None:
    worded = write(scene(3), [("LIGHT AND DARK", 0.5, 0.5)], size=0.15)
    shade = 1 - 0.7 * cv2.GaussianBlur(worded.ink, (0, 0), 3).astype(np.float32)[:, :, None] / 255
    shaded = np.where(worded.ink[:, :, None] > 0, worded.picture, worded.clean * shade).astype(np.uint8)
    wide = find_words(as_jpeg(shaded), worded.boxes).wide
    dark = cv2.absdiff(worded.clean, shaded).max(axis=2) > 24
    assert (wide[dark] > 0).mean() > 0.99
    assert (wide > 0).mean() < 1.5 * dark.mean()


@pytest.mark.parametrize("seed", [1, 3])
def test_the_picture_between_lines_is_kept_however_motley_it_is(seed: int) -> None:
    worded = write(scene(seed), [("TWO LINES OF WORDS\nAND A GAP BETWEEN", 0.5, 0.3)])
    wide = find_words(as_jpeg(worded.picture), worded.boxes).wide
    near = cv2.dilate(worded.ink, np.ones((13, 13), np.uint8)) > 0
    assert near[wide > 0].mean() > 0.99
    assert (wide[worded.ink > 0] > 0).mean() > 0.99
