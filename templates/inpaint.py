"""Fills holes in a picture from their surroundings.

Colours spread from the edge of a hole, first in the reduced picture, then at each larger scale (push-pull as in
Gortler et al., "The Lumigraph", 1996, with diffusion). For words this is closer to the truth than fast marching
(Telea, 2004), in a quarter of its time.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.templates.panels import Panel

_STEPS = 6  # of diffusion per scale
_MIN_SIDE = 4  # pixels
_AROUND = 24  # pixels around words that are used


def inpaint(picture: Pixels, mask: Pixels) -> Pixels:
    """Fill a (height, width, 3) picture where `mask` is not 0; the rest stays bit for bit."""
    filled = picture.copy()
    count, _, stats, _ = cv2.connectedComponentsWithStats(_joined(mask), connectivity=8)
    for x, y, width, height, _ in stats[1:count]:
        area = slice(max(0, y - _AROUND), y + height + _AROUND), slice(max(0, x - _AROUND), x + width + _AROUND)
        filled[area] = _fill(filled[area], mask[area])
    return filled


def fill_panel(picture: Pixels, panel: Panel, mask: Pixels) -> None:
    """Fill the letters of `panel` where `mask` is not 0 with its colour, in place; clear the mask there."""
    area = picture[panel.area]
    words = np.where(mask[panel.area] > 0, panel.letters, 0).astype(np.uint8)
    filled = _fill(area, panel.letters | panel.others)
    area[words > 0] = filled[words > 0]
    mask[panel.area][words > 0] = 0


def _joined(mask: Pixels) -> Pixels:
    """Join the letters of one text, to be filled at once."""
    return np.asarray(cv2.dilate(mask, np.ones((_AROUND, _AROUND), np.uint8)), np.uint8)


def _fill(picture: Pixels, mask: Pixels) -> Pixels:
    known = np.asarray(mask == 0, np.float32)
    if known.all() or not known.any():
        return picture
    levels = _shrunk(picture.astype(np.float32), known)
    colours, share = levels[-1]
    guess = np.asarray((colours * share[:, :, None]).sum(axis=(0, 1), keepdims=True) / share.sum(), np.float32)
    for colours, share in reversed(levels):
        hole = np.asarray(share == 0, np.uint8)
        flown = cv2.resize(guess, hole.shape[::-1], interpolation=cv2.INTER_LINEAR)
        guess = np.asarray(cv2.copyTo(flown, hole, colours.copy()), np.float32)
        for _ in range(_STEPS):
            cv2.copyTo(cv2.blur(guess, (3, 3)), hole, guess)
    return np.where(mask[:, :, None] > 0, np.rint(guess), picture).clip(0, 255).astype(np.uint8)


def _shrunk(
    colours: NDArray[np.float32], known: NDArray[np.float32]
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return means of the known pixels at scales 1, 1/2, 1/4 … until all are known, with the known share."""
    levels = [(colours, known)]
    while not known.all() and min(known.shape) > _MIN_SIDE:
        size = (known.shape[1] + 1) // 2, (known.shape[0] + 1) // 2
        share = np.asarray(cv2.resize(known, size, interpolation=cv2.INTER_AREA), np.float32)
        sums = cv2.resize(colours * known[:, :, None], size, interpolation=cv2.INTER_AREA)
        colours = np.asarray(sums / np.maximum(share, 1e-6)[:, :, None], np.float32)
        known = np.asarray(share > 0, np.float32)
        levels.append((colours, known))
    return levels
