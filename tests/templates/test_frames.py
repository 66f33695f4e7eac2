"""Margins and borders end where they end: they are not continued into the picture, nor the picture into them."""

import numpy as np
import pytest

from memeloom.templates.inpaint import inpaint


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("colour", [0, 255])
def test_words_at_a_margin_are_filled_with_the_picture_and_the_margin(colour: int, turned: bool) -> None:
    random = np.random.default_rng(1)
    picture = np.full((240, 400, 3), colour, np.uint8)
    picture[:200] = np.clip(random.normal(110, 20, (200, 400, 1)), 60, 160).astype(np.uint8)
    mask = np.zeros((240, 400), np.uint8)
    for left in range(30, 360, 30):
        mask[165:206, left : left + 22] = 255
    clean, worded = picture.copy(), np.where(mask[:, :, None] > 0, 200, picture).astype(np.uint8)
    if turned:
        clean, worded, mask = (np.ascontiguousarray(each.swapaxes(0, 1)) for each in (clean, worded, mask))
    filled = inpaint(worded, mask)
    margin = (mask > 0) & (clean == colour).all(axis=2)
    inside = (mask > 0) & ~margin
    assert np.array_equal(filled[margin], clean[margin])
    assert abs(float(filled[inside].mean()) - 110) < 6
    assert (np.abs(filled[inside].astype(int) - 110) > 75).mean() < 0.005


def test_words_on_a_plain_picture_are_filled_row_by_row() -> None:
    shades = np.linspace(40, 200, 160).astype(np.uint8)
    picture = np.broadcast_to(shades[:, None, None], (160, 300, 3)).copy()
    mask = np.zeros((160, 300), np.uint8)
    mask[50:100, 60:240] = 255
    worded = np.where(mask[:, :, None] > 0, 255, picture).astype(np.uint8)
    assert np.array_equal(inpaint(worded, mask), picture)


def test_an_object_between_plain_sides_is_no_bar() -> None:
    picture = np.zeros((200, 400, 3), np.uint8)
    picture[:, 100:300] = np.random.default_rng(2).integers(120, 220, (200, 200, 1), np.uint8)
    mask = np.zeros((200, 400), np.uint8)
    mask[80:110, 90:310] = 255
    filled = inpaint(np.where(mask[:, :, None] > 0, 255, picture).astype(np.uint8), mask)
    assert filled[80:110, 120:280].mean() > 140
