"""Corners: spread over a picture, also beside text, and described in a way that mirroring reorders."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from memeloom.catalog.images import Pixels
from memeloom.serve.drawing import draw_caption
from memeloom.templates.features import describe_corners, find_corners, mirror_bits

Draw = Callable[[int], Pillow.Image]


def grey(picture: Pillow.Image) -> Pixels:
    return np.asarray(picture.convert("L").resize((180, 144)), np.uint8)


def distances(one: Pixels, two: Pixels) -> NDArray[np.int64]:
    """Bits in which each description of `one` differs from each of `two`."""
    return np.asarray(np.bitwise_count(one[:, None] ^ two[None]).sum(axis=2), np.int64)


def test_text_does_not_displace_other_corners(draw: Draw) -> None:
    picture = draw(1)
    plain = find_corners(grey(picture))
    texted = find_corners(grey(draw_caption(picture, (), ["MANY SHARP LETTERS AT THE TOP OF IT"])))
    below = plain[plain[:, 1] > 60]
    assert len(below) > 15
    assert sum((texted == corner).all(axis=1).any() for corner in below) > 0.9 * len(below)


def test_corners_keep_apart(draw: Draw) -> None:
    corners = find_corners(grey(draw(2)))
    apart = np.abs(corners[:, None] - corners[None]).max(axis=2) + 99 * np.eye(len(corners))
    assert apart.min() > 6


@pytest.mark.parametrize("shade", [0, 127, 255])
def test_an_even_picture_has_none(shade: int) -> None:
    even = np.full((150, 170), shade, np.uint8)
    corners = find_corners(even)
    assert corners.shape == (0, 2)
    assert describe_corners(even, corners).shape == (0, 32)


def test_descriptions_survive_changes_of_light_and_tell_corners_apart(draw: Draw) -> None:
    light = grey(draw(3))
    dark = np.asarray(light * 0.6 + 20, np.uint8)
    corners = find_corners(light)
    apart = distances(describe_corners(light, corners), describe_corners(dark, corners))
    own = np.diag(apart)
    assert np.median(own) < 16
    others = apart[~np.eye(len(corners), dtype=bool)]
    assert np.median(others) > 80


def test_a_mirror_exchanges_bits(draw: Draw) -> None:
    straight = grey(draw(4))
    mirrored = np.ascontiguousarray(straight[:, ::-1])
    corners = find_corners(straight)
    there = np.stack([straight.shape[1] - 1 - corners[:, 0], corners[:, 1]], axis=1)
    found = describe_corners(mirrored, there)
    assert (mirror_bits(describe_corners(straight, corners)) == found).mean() > 0.99
    assert (mirror_bits(mirror_bits(found)) == found).all()
