"""Memes without their words, with and without a known template."""

import cv2
import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.recover import Reference
from memeloom.templates.wordless import Wordless, remove_words
from tests.templates.scenes import BLACK, as_jpeg, psnr, scene, write

TEXTS = [("WHEN YOU FINALLY\nFIX THE BUG", 0.5, 0.14), ("AND FIND THREE MORE", 0.5, 0.92)]


def removed(picture: Pixels, boxes: tuple[OcrBox, ...], template: Reference | None = None) -> Wordless:
    done = remove_words(picture, boxes, template)
    assert done is not None
    return done


def test_words_are_filled_from_the_template() -> None:
    worded = write(scene(1), TEXTS)
    meme = as_jpeg(np.asarray(cv2.resize(worded.picture, (430, 350), interpolation=cv2.INTER_AREA), np.uint8))
    truth = np.asarray(cv2.resize(worded.clean, (430, 350), interpolation=cv2.INTER_AREA), np.uint8)
    ink = np.asarray(cv2.resize(worded.ink, (430, 350), interpolation=cv2.INTER_AREA), np.uint8)
    done = removed(meme, worded.boxes, Reference.of(scene(1)))
    guessed = removed(meme, worded.boxes)
    assert (done.method, guessed.method) == ("template", "inpaint")
    assert psnr(done.picture, truth, ink) > 30
    assert psnr(done.picture, truth, ink) > psnr(guessed.picture, truth, ink) + 3
    assert np.array_equal(done.picture[done.mask == 0], meme[done.mask == 0])


def test_with_a_template_a_meme_need_not_be_read() -> None:
    worded = write(scene(2), TEXTS)
    done = removed(as_jpeg(worded.picture), (), Reference.of(scene(2)))
    assert psnr(done.picture, worded.clean) > 28


def test_a_darker_mirrored_meme_is_filled_as_dark_as_it_is() -> None:
    ground = np.ascontiguousarray(scene(3)[:, ::-1])
    dark = np.asarray(ground * 0.8, np.uint8)
    worded = write(dark, TEXTS)
    done = removed(as_jpeg(worded.picture, 92), worded.boxes, Reference.of(scene(3)))
    assert done.method == "template"
    assert psnr(done.picture, dark, worded.ink) > 30


def test_drawings_far_from_the_words_are_kept() -> None:
    clean = scene(4)
    cv2.circle(clean, (250, 200), 25, (0, 0, 255), -1)
    worded = write(clean, TEXTS)
    done = removed(worded.picture, worded.boxes, Reference.of(scene(4)))
    assert not done.mask[175:225, 225:275].any()


def test_an_added_white_strip_is_filled_with_white() -> None:
    panel = np.concatenate([np.full((100, 500, 3), 255, np.uint8), scene(5)])
    worded = write(panel, [("WHAT IT SAYS ABOVE", 0.5, 0.1)], size=0.08, colour=BLACK, outline=None)
    done = removed(as_jpeg(worded.picture), worded.boxes, Reference.of(scene(5)))
    assert done.picture[5:90].min() > 220


def test_a_meme_on_another_picture_is_filled_from_its_surroundings() -> None:
    worded = write(scene(6), TEXTS)
    done = removed(worded.picture, worded.boxes, Reference.of(scene(66)))
    assert done.method == "inpaint"


def test_without_words_there_is_no_picture() -> None:
    assert remove_words(scene(7), ()) is None
    assert remove_words(as_jpeg(scene(7)), (), Reference.of(scene(7))) is None


def test_a_large_picture_is_scaled_down_with_its_mask() -> None:
    worded = write(np.asarray(cv2.resize(scene(8), (3000, 2400)), np.uint8), TEXTS)
    done = removed(worded.picture, worded.boxes)
    assert done.picture.shape[:2] == done.mask.shape
    assert done.mask.size <= 4_001_000
