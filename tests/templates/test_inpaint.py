"""Inpainting: closer to the picture than the words were; the rest unchanged."""

import cv2
import numpy as np
import pytest

from memeloom.templates.inpaint import inpaint
from memeloom.templates.mask import find_words
from memeloom.templates.patches import fill_from_patches
from tests.templates.scenes import as_jpeg, psnr, scene, write

TEXTS = [("WHEN YOU FINALLY\nFIX THE BUG", 0.5, 0.14), ("AND FIND THREE MORE", 0.5, 0.92)]


def test_inpainting_is_closer_to_the_truth_than_the_words() -> None:
    for seed in range(8):
        worded = write(scene(seed, 320, 256), TEXTS)
        picture = as_jpeg(worded.picture)
        filled = inpaint(picture, find_words(picture, worded.boxes).mask)
        assert psnr(filled, worded.clean, worded.ink) > psnr(picture, worded.clean, worded.ink) + 8


def test_pixels_outside_of_the_mask_stay_as_they_are() -> None:
    picture, mask = scene(1), np.zeros((400, 500), np.uint8)
    mask[100:140, 50:300] = 255
    filled = inpaint(picture, mask)
    assert np.array_equal(filled[mask == 0], picture[mask == 0])
    assert not np.array_equal(filled[mask > 0], picture[mask > 0])


def test_a_plain_colour_is_filled_exactly() -> None:
    picture, mask = np.full((60, 80, 3), (10, 200, 90), np.uint8), np.zeros((60, 80), np.uint8)
    mask[20:40, 10:70] = 255
    ground = picture.copy()
    picture[mask > 0] = 0
    assert np.array_equal(inpaint(picture, mask), ground)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (4, 4), (5, 900)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_any_size_and_any_share_is_filled(shape: tuple[int, int], share: float) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    mask = np.asarray(255 * (np.random.default_rng(1).random(shape) < share), np.uint8)
    filled = inpaint(picture, mask)
    assert filled.shape == picture.shape
    assert np.array_equal(filled[mask == 0], picture[mask == 0])


def test_textures_are_continued_and_smooth_surroundings_diffused() -> None:
    mask = np.zeros((160, 240), np.uint8)
    mask[60:90, 50:190] = 255
    grain = np.random.default_rng(3).normal(0, 25, (160, 240, 1))
    rough = np.clip(128 + np.repeat(grain, 3, axis=2), 0, 255).astype(np.uint8)
    assert inpaint(rough, mask)[mask > 0].std() > 15
    assert inpaint(rough, mask, textures=False)[mask > 0].std() < 12
    shades = np.linspace(40, 120, 240)[None, :] + np.linspace(0, 80, 160)[:, None]
    smooth = np.repeat(shades[:, :, None], 3, axis=2).astype(np.uint8)
    assert np.array_equal(inpaint(smooth, mask), inpaint(smooth, mask, textures=False))


def test_a_text_is_filled_from_its_own_surroundings_and_not_from_those_of_another() -> None:
    grain = np.random.default_rng(5).normal(128, 25, (220, 400, 1))
    picture = np.clip(grain, 0, 255).astype(np.uint8).repeat(3, axis=2)
    mask = np.zeros((220, 400), np.uint8)
    mask[20:60, 20:380] = mask[125:140, 150:250] = 255
    first = fill_from_patches(picture[:152], mask[:152])  # 12 and 80 pixels more than the text
    assert np.array_equal(inpaint(picture, mask)[20:60], first[20:60])


def test_an_edge_between_smooth_colours_is_continued_sharp() -> None:
    picture = np.full((160, 300, 3), 60, np.uint8)
    picture[:, 150:] = 180
    picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), 1), np.uint8)
    mask = np.zeros((160, 300), np.uint8)
    mask[60:100, 40:260] = 255
    filled = inpaint(picture, mask)
    assert np.abs(np.diff(filled[60:100, :, 0].astype(int), axis=1)).max(axis=1).min() > 25
    assert np.abs(filled.astype(int) - picture)[mask > 0].mean() < 4
