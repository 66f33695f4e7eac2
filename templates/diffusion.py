"""Fills holes smoothly: colours spread from their edge.

First in the reduced picture, then at each larger scale (push-pull as in Gortler et al., "The Lumigraph", 1996, with
diffusion). For words this is closer to the truth than fast marching (Telea, 2004), in a quarter of its time.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_STEPS = 6  # of diffusion per scale
_MIN_SIDE = 4  # pixels


def diffuse(values: Floats, known: NDArray[np.bool_]) -> list[tuple[Floats, NDArray[np.bool_]]]:
    """Fill (height, width, channels) values where they are not known; some must be.

    Returns:
        The filled values and which of them are known, at scales 1, 1/2, 1/4 … until all are known.
    """
    levels = _shrunk(values, known.astype(np.float32))
    values, share = levels[-1]
    guess = np.asarray((values * share[:, :, None]).sum(axis=(0, 1), keepdims=True) / share.sum(), np.float32)
    filled = []
    for values, share in reversed(levels):
        hole = np.asarray(share == 0, np.uint8)
        flown = cv2.resize(guess, hole.shape[::-1], interpolation=cv2.INTER_LINEAR).reshape(values.shape)
        guess = np.asarray(cv2.copyTo(flown, hole, values.copy()), np.float32)
        for _ in range(_STEPS):
            cv2.copyTo(cv2.blur(guess, (3, 3)), hole, guess)
        filled.append((guess, hole == 0))
    return filled[::-1]


def _shrunk(values: Floats, known: Floats) -> list[tuple[Floats, Floats]]:
    """Return means of the known values at scales 1, 1/2, 1/4 … until all are known, with the known share."""
    levels = [(values, known)]
    while not known.all() and min(known.shape) > _MIN_SIDE:
        size = (known.shape[1] + 1) // 2, (known.shape[0] + 1) // 2
        share = np.asarray(cv2.resize(known, size, interpolation=cv2.INTER_AREA), np.float32)
        sums = cv2.resize(values * known[:, :, None], size, interpolation=cv2.INTER_AREA)
        values = np.asarray(sums / np.maximum(share, 1e-6)[:, :, None], np.float32)
        known = np.asarray(share > 0, np.float32)
        levels.append((values, known))
    return levels
