"""Masks of texts with several colours, on several backgrounds, and beside shapes of the letters' colour."""

import cv2
import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.inpaint import fill_panel
from memeloom.templates.mask import find_words
from memeloom.templates.panels import Panel
from memeloom.templates.wordless import remove_words
from tests.templates.scenes import BLACK, YELLOW, as_jpeg, scene, write


def around(boxes: tuple[OcrBox, ...], more: float = 0.0) -> OcrBox:
    """One box around several, `more` of the picture's height larger above and below."""
    left, top = min(box.x for box in boxes), min(box.y for box in boxes) - more
    right = max(box.x + box.width for box in boxes)
    bottom = max(box.y + box.height for box in boxes) + more
    text = " ".join(box.text for box in boxes)
    lines = tuple((box.x, box.y, box.width, box.height) for box in boxes)
    return OcrBox(text=text, x=left, y=top, width=right - left, height=bottom - top, confidence=90.0, lines=lines)


def without_words(picture: Pixels, *boxes: OcrBox) -> Pixels:
    done = remove_words(picture, boxes)
    assert done is not None
    return done.picture


def test_words_of_two_colours_in_one_line_are_masked() -> None:
    clean = scene(9)
    first = write(clean, [("THE LONGER LINE IS ALL WHITE", 0.5, 0.4), ("AN", 0.1, 0.491)], size=0.07)
    second = write(first.picture, [("ANCIENT YELLOW LINE", 0.402, 0.491)], size=0.07, colour=YELLOW)
    ink = cv2.absdiff(clean, second.picture).max(axis=2) > 24
    mask = find_words(as_jpeg(second.picture), (around((*first.boxes, *second.boxes)),)).mask
    assert (mask[ink] > 0).mean() > 0.98


def test_shapes_of_the_letters_colour_away_from_their_lines_are_kept() -> None:
    clean = scene(4)
    for x, y in ((70, 70), (300, 75), (430, 212), (180, 207)):
        cv2.ellipse(clean, (x, y), (8, 13), 20, 0, 360, (255, 255, 255), -1)
    worded = write(clean, [("THE LINES ARE\nWRITTEN HERE", 0.5, 0.35)], size=0.1)
    shapes = (clean.min(axis=2) > 250) & (worded.ink == 0)
    mask = find_words(as_jpeg(worded.picture), (around(worded.boxes, 0.12),)).mask
    assert (mask[worded.ink > 0] > 0).mean() > 0.98
    assert (mask[shapes] > 0).mean() < 0.1


def test_outlined_letters_go_on_beside_a_dark_bar_on_the_picture() -> None:
    clean = scene(4)
    clean[:75] = 4
    clean[75:150, 200:] //= 25
    worded = write(clean, [("WHAT MY FRIEND SAID\nWHEN HE WAS THERE", 0.5, 0.185)], size=0.13)
    mask = find_words(as_jpeg(worded.picture), worded.boxes).mask
    assert (mask[worded.ink > 0] > 0).mean() > 0.98


def test_texts_on_strips_of_two_colours_in_one_box_are_removed() -> None:
    picture = np.full((300, 600, 3), 40, np.uint8)
    picture[60:100] = (205, 220, 250)
    picture[100:] = np.random.default_rng(3).integers(0, 256, (200, 600, 1), np.uint8)
    first = write(picture, [("Anti-everything", 0.5, 0.1)], size=0.16, outline=None)
    both = write(
        first.picture, [("Self-perception", 0.3, 0.265), ("Reality", 0.8, 0.265)], size=0.09, colour=BLACK, outline=None
    )
    cleaned = without_words(as_jpeg(both.picture), around((*first.boxes, *both.boxes)))
    assert np.abs(cleaned[4:96].astype(int) - picture[4:96]).max(axis=2).mean() < 3
    assert (np.abs(cleaned[4:96].astype(int) - picture[4:96]).max(axis=2) > 40).mean() < 0.005


def test_a_text_on_a_strip_is_filled_with_the_strip_though_its_box_is_larger() -> None:
    picture = scene(2)
    picture[150:190] = 255
    worded = write(picture, [("history will remember the", 0.5, 0.425)], size=0.075, colour=BLACK, outline=None)
    cleaned = without_words(as_jpeg(worded.picture), around(worded.boxes, 0.07))
    assert cleaned[155:185].min() > 225


def test_a_plain_strip_stays_plain_beside_one_of_a_similar_colour() -> None:
    picture = np.zeros((100, 300, 3), np.uint8)
    picture[92:] = 18
    mask = np.zeros((100, 300), np.uint8)
    mask[30:92, 40:260] = 255
    panel = Panel((slice(0, 100), slice(0, 300)), mask.copy(), np.zeros_like(mask), np.full_like(mask, 255))
    filled = picture.copy()
    fill_panel(filled, panel, mask)
    assert filled[:92].max() < 3


def test_the_outline_of_letters_on_a_dark_picture_is_found() -> None:
    clean = np.full((300, 500, 3), 25, np.uint8)
    for column in range(6):
        clean[:, column::32] = 210
    worded = write(clean, [("OUTLINED", 0.5, 0.5)], size=0.25)
    (ink,) = find_words(as_jpeg(worded.picture, 95), worded.boxes).inks
    assert ink is not None
    assert ink.outline is not None
    assert ink.width < 6


def test_shapes_that_go_on_below_the_text_are_kept() -> None:
    clean = scene(4)
    for x in range(60, 440, 36):
        clean[178:290, x : x + 14] = 255
    worded = write(clean, [("ABOVE A FENCE", 0.5, 0.35)], size=0.14)
    fence = (clean.min(axis=2) > 250) & (np.arange(400)[:, None] > 190)
    mask = find_words(as_jpeg(worded.picture), (around(worded.boxes, 0.03),)).mask
    assert (mask[worded.ink > 0] > 0).mean() > 0.98
    assert (mask[fence] > 0).mean() < 0.02


def test_strips_of_one_text_on_a_picture_are_each_filled_with_their_colour() -> None:
    clean = scene(9)
    for top in (60, 120, 180):
        clean[top : top + 46, 60:440] = (30, 30, 200)
    lines = [("HALF A MILLION JOBS", 0.5, 0.2075), ("WERE GAINED", 0.5, 0.3575), ("AT 9.9%", 0.5, 0.5075)]
    worded = write(clean, lines, size=0.09, outline=None)
    cleaned = without_words(as_jpeg(worded.picture), around(worded.boxes))
    assert (np.abs(cleaned.astype(int) - as_jpeg(clean)).max(axis=2) > 40).mean() < 0.002
