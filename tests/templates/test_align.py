"""Alignment to a fraction of a pixel, with and without words."""

import cv2
import numpy as np
import pytest

from memeloom.catalog.images import Pixels
from memeloom.templates.align import refine, warp_onto
from memeloom.templates.placing import Affine
from tests.templates.scenes import as_jpeg, psnr, scene, write


def grey(picture: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), np.uint8)


def affine(scale: tuple[float, float], shift: tuple[float, float]) -> Affine:
    return np.array([[scale[0], 0, shift[0]], [0, scale[1], shift[1]]])


def farthest(one: Affine, other: Affine, size: tuple[int, int]) -> float:
    """Pixels by which two maps differ in any corner."""
    corners = np.array([[x, y, 1] for x in (0, 1) for y in (0, 1)])
    return float(np.abs(corners @ (one - other).T * size).max())


@pytest.mark.parametrize("factor", [0.45, 0.8, 1.0, 1.7])
def test_a_scaled_meme_is_aligned_to_a_tenth_of_a_pixel(factor: float) -> None:
    template = scene(1)
    meme = write(template, [("TOP TEXT HERE", 0.5, 0.1), ("AND BOTTOM TEXT", 0.5, 0.9)]).picture
    size = round(500 * factor), round(400 * factor)
    meme = as_jpeg(np.asarray(cv2.resize(meme, size, interpolation=cv2.INTER_AREA), np.uint8), 60)
    found = refine(grey(meme), grey(template), affine((1.01, 0.99), (-0.012, 0.01)))
    assert found is not None
    assert farthest(found.affine, affine((1, 1), (0, 0)), (500, 400)) < 0.1 / min(1, factor)
    assert found.agreement > 0.7


def test_a_framed_crop_is_aligned() -> None:
    template = scene(2)
    crop = cv2.copyMakeBorder(template[20:380, 25:500], 30, 10, 15, 15, cv2.BORDER_CONSTANT, value=(255, 255, 255))
    truth = affine((505 / 500, 400 / 400), (10 / 500, -10 / 400))
    found = refine(grey(np.asarray(crop, np.uint8)), grey(template), affine((1.0, 1.01), (0.03, -0.03)))
    assert found is not None
    assert farthest(found.affine, truth, (500, 400)) < 0.1


def test_unrelated_pictures_do_not_agree() -> None:
    found = refine(grey(scene(3)), grey(scene(4)), affine((1, 1), (0, 0)))
    assert found is None or found.agreement < 0.4


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (300, 2), (30, 30)])
def test_plain_pictures_are_not_aligned(shape: tuple[int, int]) -> None:
    even = np.full(shape, 128, np.uint8)
    for picture, reference in ((even, grey(scene(5))), (grey(scene(5)), even)):
        found = refine(picture, reference, affine((1, 1), (0, 0)))
        assert found is None or found.agreement < 0.05


def test_a_picture_is_warped_by_its_map() -> None:
    template = scene(6)
    half = np.ascontiguousarray(template[:200])
    laid, there = warp_onto(half, affine((1, 0.5), (0, 0)), (500, 400))
    assert laid.shape == template.shape
    assert (there[:199] == 255).all()
    assert not there[202:].any()
    assert psnr(laid[:199], template[:199]) > 50


def test_a_large_picture_is_averaged_when_warped_onto_a_small_one() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1600, 2000, 3), np.uint8)
    laid, _ = warp_onto(noise, affine((1, 1), (0, 0)), (250, 200))
    assert laid.std() < 20  # single pixels of it would have 74
