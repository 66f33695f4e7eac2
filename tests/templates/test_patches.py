"""Patches: a textured hole looks like its surroundings; the rest is unchanged, and equal input gives equal output."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from memeloom.catalog.images import Pixels
from memeloom.templates.diffusion import diffuse
from memeloom.templates.patches import fill_from_patches

SHAPE = (200, 260)


def stripes() -> Pixels:
    odd = np.indices(SHAPE).sum(axis=0)[:, :, None] // 6 % 2
    return np.asarray(np.where(odd, (40, 60, 200), (220, 210, 180)), np.uint8)


def bricks() -> Pixels:
    wall = np.full((*SHAPE, 3), (60, 70, 160), np.uint8)
    wall[::12] = 200
    for row in range(0, SHAPE[0], 12):
        wall[row : row + 12, row // 12 % 2 * 12 :: 24] = 200
    return wall


def noise() -> Pixels:
    return np.random.default_rng(0).integers(60, 200, (*SHAPE, 3), np.uint8)


def letters(shape: tuple[int, int] = SHAPE) -> Pixels:
    """The mask of large letters in the middle."""
    mask = np.zeros(shape, np.uint8)
    cv2.putText(mask, "TEXT", (30, 130), cv2.FONT_HERSHEY_SIMPLEX, 2.8, 255, 14)
    return mask


def roughness(picture: Pixels, where: Pixels) -> float:
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    return float(np.abs(cv2.Laplacian(grey, cv2.CV_32F))[where > 0].mean())


@pytest.mark.parametrize("texture", [stripes, bricks, noise])
def test_a_hole_in_a_texture_is_as_rough_as_its_surroundings(texture: Callable[[], Pixels]) -> None:
    picture, mask = texture(), letters()
    filled = fill_from_patches(np.where(mask[:, :, None] > 0, 0, picture).astype(np.uint8), mask)
    diffused = np.rint(diffuse(picture.astype(np.float32), mask == 0)[0][0]).astype(np.uint8)
    wanted = roughness(picture, mask)
    assert abs(roughness(filled, mask) - wanted) < 0.3 * wanted
    assert abs(roughness(filled, mask) - wanted) < 0.5 * abs(roughness(diffused, mask) - wanted)


@pytest.mark.parametrize("texture", [stripes, bricks])
def test_a_regular_texture_is_continued(texture: Callable[[], Pixels]) -> None:
    picture, mask = texture(), letters()
    filled = fill_from_patches(picture, mask)
    wrong = cv2.absdiff(filled, picture).max(axis=2) > 40
    assert wrong[mask > 0].mean() < 0.1


def test_known_pixels_stay_and_the_result_is_always_the_same() -> None:
    picture, mask = noise(), letters()
    filled = fill_from_patches(picture, mask)
    assert np.array_equal(filled[mask == 0], picture[mask == 0])
    assert np.array_equal(filled, fill_from_patches(picture, mask))
    other = picture.copy()
    other[mask > 0] = 7
    assert np.array_equal(filled, fill_from_patches(other, mask))


def test_a_picture_with_too_many_patches_is_filled_from_the_matches_of_the_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memeloom.templates.matching._MAX_PATCHES", 20_000)
    picture, mask = stripes(), letters()
    filled = fill_from_patches(picture, mask)
    assert (cv2.absdiff(filled, picture).max(axis=2) > 40)[mask > 0].mean() < 0.2


def test_large_pictures_are_not_compared_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memeloom.templates.matching._PAIRS", 200_000)
    picture, mask = bricks(), letters()
    filled = fill_from_patches(picture, mask)
    assert (cv2.absdiff(filled, picture).max(axis=2) > 40)[mask > 0].mean() < 0.2


@pytest.mark.parametrize("shape", [(1, 2), (3, 40), (7, 7), (8, 9), (12, 300), (16, 16)])
def test_tiny_pictures_and_those_with_one_known_pixel_are_filled(shape: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (*shape, 3), np.uint8)
    mask = np.full(shape, 255, np.uint8)
    mask[0, 0] = 0
    filled = fill_from_patches(picture, mask)
    assert np.array_equal(filled[0, 0], picture[0, 0])
    assert (np.abs(filled.astype(int) - picture[0, 0]) <= 1).all()
