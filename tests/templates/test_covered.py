"""The picture between letters, where words cover every meme."""

import random

import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.templates.covered import uncover
from memeloom.templates.inpaint import inpaint
from memeloom.templates.median import Layer, Merged, merge
from tests.templates.scenes import as_jpeg, psnr, scene, write

WORDS = ["NOBODY", "KNOWS", "WHY", "TESTS", "ARE", "GREEN", "ON", "THIS", "MACHINE", "BUT", "NOT", "WHEN", "RAINS"]
BAND = slice(84, 156)  # rows that every meme covers


def layers(texts: list[str]) -> list[Layer]:
    """Memes on `scene(1, 300, 240)` with all of the band masked."""
    shown = np.full((240, 300), 255, np.uint8)
    shown[BAND] = 0
    pictures = (as_jpeg(write(scene(1, 300, 240), [(text, 0.5, 0.5)], size=0.09).picture, 85) for text in texts)
    return [Layer(picture, shown, apart=np.zeros(shown.shape, np.float32)) for picture in pictures]


def unknown(merged: Merged) -> Pixels:
    return np.asarray(255 * (merged.support == 0), np.uint8)


def band() -> Pixels:
    mask = np.zeros((240, 300), np.uint8)
    mask[BAND] = 255
    return mask


def test_what_shows_between_the_letters_of_some_is_found() -> None:
    chance = random.Random(0)
    memes = layers([" ".join(chance.sample(WORDS, 4)) for _ in range(12)])
    merged = merge(memes)
    found = uncover(merged, memes)
    assert np.array_equal(found.pixels[merged.support > 0], merged.pixels[merged.support > 0])
    before, after = inpaint(merged.pixels, unknown(merged)), inpaint(found.pixels, unknown(found))
    assert psnr(after, scene(1, 300, 240), band()) > psnr(before, scene(1, 300, 240), band()) + 6
    assert (unknown(found) > 0).sum() < 0.4 * (unknown(merged) > 0).sum()


def test_words_that_all_share_are_not_taken_for_the_picture() -> None:
    memes = layers(["NOBODY KNOWS"] * 12)
    ink = write(scene(1, 300, 240), [("NOBODY KNOWS", 0.5, 0.5)], size=0.09).ink
    merged = merge(memes)
    found = uncover(merged, memes)
    after = inpaint(found.pixels, unknown(found))
    assert psnr(after, scene(1, 300, 240), ink) > psnr(memes[0].pixels, scene(1, 300, 240), ink) + 6


def test_what_is_out_of_view_shows_nothing() -> None:
    memes = layers(["NOBODY KNOWS"] * 3)
    flat = np.full_like(memes[0].pixels, 128)
    none = np.zeros((240, 300), np.uint8)
    memes = [Layer(flat, each.shown, apart=each.apart, in_view=none) for each in memes]
    merged = merge(memes)
    assert not uncover(merged, memes).support[BAND].any()
