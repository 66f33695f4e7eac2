"""What a picture is recognised by: corners all over it, and for each a few bits about its surroundings.

Letters have the sharpest corners of all. So the picture is divided into cells and each gives its sharpest
one: a caption fills its own cells and no others. The surroundings of a corner are described as in BRIEF
(Calonder et al., "BRIEF: Binary Robust Independent Elementary Features", 2010): each bit says which of two
places nearby is brighter. Memes stand upright, so there is no orientation. The pairs of places are closed
under mirroring: the description of a mirrored picture is ours with its bits in another order.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from catalog.images import Pixels

Points = NDArray[np.float32]
Bits = NDArray[np.uint8]

CELL = 12  # pixels
_REACH = 15  # pixels from a corner to the farthest place that is looked at
_PAIRS = 256
_SHARPEST_NEARBY = np.ones((7, 7), np.uint8)
_LEAST_SHARP = 1e-5


def _pattern() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of places, (256, 2, 2) as (x, y); and for each bit the one that a mirror makes of it."""
    random = np.random.default_rng(2010)
    half = np.clip(np.rint(random.normal(0, _REACH / 2.4, (_PAIRS // 2, 2, 2))), -_REACH, _REACH)
    pairs = np.concatenate([half, half * (-1, 1)]).astype(np.int64)
    return pairs, np.roll(np.arange(_PAIRS), _PAIRS // 2)


_PLACES, _MIRRORED = _pattern()


def find_corners(grey: Pixels) -> Points:
    """The sharpest corner of each cell of a (height, width) picture, if it has one: (n, 2) as x and y in pixels.

    Sharp is where the brightness changes in both directions (Shi and Tomasi, "Good Features to Track", 1994).
    """
    sharpness = cv2.cornerMinEigenVal(grey, blockSize=5, ksize=3)
    peaks = (sharpness == cv2.dilate(sharpness, _SHARPEST_NEARBY)) & (sharpness > _LEAST_SHARP)
    height, width = grey.shape
    rows, columns = -(-height // CELL), -(-width // CELL)
    cells = np.zeros((rows * CELL, columns * CELL), np.float32)
    cells[:height, :width] = np.where(peaks, sharpness, 0)
    cells = cells.reshape(rows, CELL, columns, CELL).swapaxes(1, 2).reshape(rows * columns, CELL * CELL)
    best = cells.argmax(axis=1)
    number = np.flatnonzero(cells[np.arange(len(best)), best])
    best = best[number]
    x, y = number % columns * CELL + best % CELL, number // columns * CELL + best // CELL
    return np.stack([x, y], axis=1).astype(np.float32)


def describe_corners(grey: Pixels, points: Points) -> Bits:
    """The surroundings of `points` in a (height, width) picture: (n, 32), 256 bits each, for Hamming distances."""
    smooth = cv2.copyMakeBorder(cv2.GaussianBlur(grey, (7, 7), 2), *(_REACH,) * 4, cv2.BORDER_REFLECT_101)
    centres = (points.astype(np.int64) + _REACH) @ (1, smooth.shape[1])
    places = centres[:, None, None] + _PLACES @ (1, smooth.shape[1])
    values = smooth.reshape(-1)[places]
    return np.packbits(values[:, :, 0] < values[:, :, 1], axis=1)


def mirror_bits(bits: Bits) -> Bits:
    """What `describe_corners` says of the same corners when the picture is mirrored, (n, 32)."""
    return np.packbits(np.unpackbits(bits, axis=1)[:, _MIRRORED], axis=1)
