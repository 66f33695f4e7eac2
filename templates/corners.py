"""What a picture is recognised by: corners all over it, and for each a few bits about its surroundings.

Letters have the sharpest corners of all. So a corner only has to be the sharpest of its own neighbourhood: a
caption has those where it stands, and no others. The surroundings of a corner are described as in BRIEF
(Calonder et al., "BRIEF: Binary Robust Independent Elementary Features", 2010): each bit says which of two
places nearby is brighter. Memes stand upright, so there is no orientation. The pairs of places are closed
under mirroring: the description of a mirrored picture is ours with its halves exchanged.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

Points = NDArray[np.float32]
Bits = NDArray[np.uint8]

_NEIGHBOURHOOD = np.ones((13, 13), np.uint8)  # pixels
_LEAST_SHARP = 1e-5
_REACH = 24  # pixels from a corner to the farthest place that is looked at
_SPREAD = 10.0  # standard deviations: how far the first place of a pair lies from the corner, in pixels,
_APART = 8.0  # and how far the second from the first
_BLUR = 5  # pixels
_PAIRS = 256


def _pattern() -> NDArray[np.int64]:
    """Pairs of places, (256, 2, 2) as (x, y); the second half mirrors the first."""
    random = np.random.default_rng(2010)
    half = random.normal(0, _SPREAD, (_PAIRS // 2, 2, 2))
    half[:, 1] = half[:, 0] + random.normal(0, _APART, (_PAIRS // 2, 2))
    half = np.clip(np.rint(half), -_REACH, _REACH)
    return np.concatenate([half, half * (-1, 1)]).astype(np.int64)


_PLACES = _pattern()


def find_corners(grey: Pixels) -> Points:
    """The corners of a (height, width) picture that are the sharpest nearby: (n, 2) as x and y in pixels.

    Sharp is where the brightness changes in both directions (Shi and Tomasi, "Good Features to Track", 1994).
    """
    sharpness = np.asarray(cv2.cornerMinEigenVal(grey, blockSize=5, ksize=3), np.float32)
    peaks = (sharpness >= cv2.dilate(sharpness, _NEIGHBOURHOOD)) & (sharpness > _LEAST_SHARP)
    places = np.flatnonzero(peaks)
    y, x = np.divmod(places, grey.shape[1])
    return np.stack([x, y], axis=1).astype(np.float32)


def describe_corners(grey: Pixels, points: Points) -> Bits:
    """The surroundings of `points` in a (height, width) picture: (n, 32), 256 bits each, for Hamming distances."""
    # Two means over squares are a Gaussian's near neighbour, at a fraction of its cost.
    even = cv2.blur(cv2.blur(grey, (_BLUR, _BLUR)), (_BLUR, _BLUR))
    smooth = cv2.copyMakeBorder(even, *(_REACH,) * 4, cv2.BORDER_REFLECT_101)
    line = smooth.shape[1]
    x, y = points.astype(np.int64).T + _REACH
    centres = (x + line * y)[:, None]
    one, two = (_PLACES[:, :, 0] + line * _PLACES[:, :, 1]).T
    flat = smooth.reshape(-1)
    return np.packbits(flat.take(centres + one) < flat.take(centres + two), axis=1)


def mirror_bits(bits: Bits) -> Bits:
    """What `describe_corners` says of the same corners when the picture is mirrored, (n, 32)."""
    return np.roll(bits, bits.shape[1] // 2, axis=1)
