"""Words on plain panels come off without a trace; what else is on the panel stays."""

from functools import partial

import cv2
import numpy as np
import pytest

from memeloom.catalog.images import Pixels
from memeloom.templates.panels import find_panel
from memeloom.templates.wordless import remove_words
from tests.templates.scenes import BLACK, WHITE, CaptionedScene, as_jpeg, scene, write

ORANGE, YELLOW = (20, 130, 240), (30, 240, 230)  # BGR


def on_panel(panel: tuple[int, int, int], colour: tuple[int, int, int]) -> CaptionedScene:
    """A strip in one colour above a scene, with two lines of text."""
    strip = np.full((150, 500, 3), panel, np.uint8)
    return write(
        np.concatenate([strip, scene(2)]),
        [("What it says\nabove the picture", 0.5, 0.13)],
        size=0.08, colour=colour, outline=None,
    )  # fmt: skip


def without_words(worded: CaptionedScene) -> Pixels:
    done = remove_words(as_jpeg(worded.picture), worded.boxes)
    assert done is not None
    return done.picture


@pytest.mark.parametrize(
    ("panel", "colour"), [((255, 255, 255), BLACK), ((0, 0, 0), WHITE), (ORANGE, WHITE), (YELLOW, BLACK)]
)
def test_a_plain_panel_stays_plain(panel: tuple[int, int, int], colour: tuple[int, int, int]) -> None:
    worded = on_panel(panel, colour)
    grey = cv2.cvtColor(cv2.absdiff(without_words(worded), worded.clean)[5:140], cv2.COLOR_BGR2GRAY)
    assert grey.max() < 30  # compression leaves a shimmer
    assert (grey > 12).mean() < 0.01


def test_a_text_box_that_cuts_letters_leaves_none_of_them() -> None:
    worded = on_panel((255, 255, 255), BLACK)
    (box,) = worded.boxes
    narrow = box.model_copy(update={"x": box.x + 0.02, "width": box.width - 0.04})
    done = without_words(CaptionedScene(worded.clean, worded.picture, (narrow,)))
    assert done[5:140].min() > 225


def test_a_speech_bubble_keeps_its_rim_and_loses_letters_that_touch_it() -> None:
    bubble = scene(4)
    cv2.ellipse(bubble, (250, 150), (170, 90), 0, 0, 360, (0, 0, 0), -1, cv2.LINE_AA)
    cv2.ellipse(bubble, (250, 150), (162, 82), 0, 0, 360, (245, 245, 245), -1, cv2.LINE_AA)
    worded = write(
        bubble, [("words that fill\nthis bubble to its very rim\nand a line", 0.5, 0.375)],
        size=0.062, colour=BLACK, outline=None,
    )  # fmt: skip
    done = without_words(worded)
    difference = cv2.absdiff(done, worded.clean).max(axis=2)
    assert (difference > 60).mean() < 0.001


def shaded(clean: Pixels, y: float, strength: float) -> CaptionedScene:
    """Two lines of white text with a soft dark shadow, their middle at `y`."""
    text = "Shadows go\npast the jumping puppy"
    worded = write(clean, [(text, 0.5, y)], size=0.095, colour=WHITE, outline=None)
    letters = np.any(worded.picture != clean, axis=2).astype(np.uint8)[:, :, None]
    shadow = cv2.GaussianBlur(cv2.dilate(letters, np.ones((7, 7), np.uint8)).astype(np.float32), (0, 0), 2)
    picture = np.where(letters, worded.picture, worded.picture * (1 - strength * shadow[:, :, None]))
    return CaptionedScene(clean, picture.astype(np.uint8), worded.boxes)


def test_a_strip_ends_where_a_picture_begins_though_shadows_of_letters_touch_it() -> None:
    worded = shaded(np.concatenate([np.full((120, 500, 3), (60, 46, 48), np.uint8), scene(4)[:300]]), 0.165, 0.8)
    assert cv2.absdiff(without_words(worded), worded.clean)[:115].mean() < 2


def test_letters_whose_shadows_touch_something_on_a_panel_leave_no_shadow() -> None:
    panel = np.full((420, 500, 3), (60, 46, 48), np.uint8)
    panel[300:] = scene(4)[:120]
    cv2.circle(panel, (380, 190), 40, (10, 10, 10), -1)
    worded = shaded(panel, 0.3, 0.6)
    assert cv2.absdiff(without_words(worded), worded.clean)[:148].max() < 20  # the circle begins below


def test_bold_lines_that_are_blurred_to_one_piece_are_letters_also_beyond_their_box() -> None:
    picture = np.full((200, 400, 3), 255, np.uint8)
    picture[60:92, 80:300] = picture[96:128, 80:300] = picture[60:128, 180:186] = 60  # two lines, joined
    panel = find_panel(picture, (95, 58, 302, 130), 40)
    assert panel is not None
    assert panel.letters[picture[panel.area].max(axis=2) < 100].all()


def test_a_sign_beside_its_text_box_comes_off() -> None:
    worded = write(np.full((300, 500, 3), 200, np.uint8), [("DOWN BY 9.9%", 0.5, 0.3)], size=0.15, outline=None)
    (box,) = worded.boxes
    narrow = box.model_copy(update={"width": box.width - 0.06})
    done = without_words(CaptionedScene(worded.clean, worded.picture, (narrow,)))
    assert cv2.absdiff(done, worded.clean).max() < 24


def test_a_strip_with_fewer_pixels_than_its_bold_letters_and_the_dark_around_it_stays_plain() -> None:
    clean = np.full((400, 500, 3), 12, np.uint8)
    write_on = partial(write, texts=[("HE CAN PICK A JUSTICE", 0.5, 0.4)], size=0.11, colour=BLACK, outline=None)
    (box,) = write_on(clean).boxes
    corners = np.array([(box.x, box.y), (box.x + box.width, box.y + box.height)]) * (500, 400)
    (left, top), (right, bottom) = np.rint(corners).astype(int)
    clean[top - 5 : bottom + 5, left - 8 : right + 8] = 245
    done = without_words(write_on(clean))
    assert (cv2.absdiff(done, as_jpeg(clean)).max(axis=2) > 40).mean() < 0.005
