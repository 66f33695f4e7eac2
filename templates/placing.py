"""Where a template stands in a picture: found by corners that agree, verified by the pixels between them.

Corners of strangers look alike now and then, but not in places that one scaling and one shift explain, and
then the rest of the picture differs. So a match is what looks the same block by block: text covers some
blocks of a template, never most of them.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from catalog.images import Pixels
from templates.corners import Points
from templates.sketch import Sketch

Affine = NDArray[np.float64]

_ALIKE = 70  # bits of 256 in which two descriptions of one corner may differ
_NEAR = 0.03  # of the template's sides: how far a corner may lie from where the others say
_GUESSES = 200
_LEAST_CORNERS = 4
_SCALES = (0.3, 3.0)
_MOST_STRETCH = 1.5  # memes are resized without keeping their proportions
_BLOCK, _STEP = 8, 6  # pixels of the thumbnail
_TEXTURE = 40.0  # variance of a block's brightness below which it shows nothing
_SAME = 0.7  # correlation of two blocks that show the same
_LEAST_BLOCKS = 6

_matcher = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True)


@dataclass(frozen=True)
class Placing:
    """How a template stands in a picture.

    agreement: share of the template's blocks in view that the picture shows, 0-1. Blocks without texture do not count.
    seen: share of the template's blocks with texture that are in view.
    mirrored: the picture is to be mirrored first.
    affine: (2, 3), takes x and y in the (mirrored) whole picture to x and y in the whole template, both in fractions.
    """

    agreement: float
    seen: float
    mirrored: bool
    affine: Affine


def place(picture: Sketch, template: Sketch) -> Placing | None:
    """Where `template` stands in `picture`, which is not mirrored; None if their corners do not agree."""
    if not len(picture.bits) or not len(template.bits):
        return None
    pairs = [(m.queryIdx, m.trainIdx) for m in _matcher.match(picture.bits, template.bits) if m.distance < _ALIKE]
    if len(pairs) < _LEAST_CORNERS:
        return None
    here, there = np.array(pairs).T
    scaling = _consensus(picture.points[here], template.points[there], _stretch(picture, template))
    if scaling is None:
        return None
    agreement, seen = _compare(picture, template, scaling)
    return Placing(agreement, seen, False, _whole(picture, template, scaling))


def _stretch(picture: Sketch, template: Sketch) -> float:
    """What an equal scaling of both axes in pixels is in fractions: y by so much more than x."""
    (h1, w1), (h2, w2) = picture.thumb.shape, template.thumb.shape
    return float((h1 / w1) / (h2 / w2))


def _consensus(here: Points, there: Points, stretch: float) -> Affine | None:
    """The scaling and shift from `here` to `there` that most corners agree on: (2, 2), a row an axis."""
    random = np.random.default_rng(len(here))
    one, two = random.integers(0, len(here), (2, _GUESSES))
    apart = here[one] - here[two]
    usable = (np.abs(apart) > 0.05).all(axis=1)
    if not usable.any():
        return None
    one, two, apart = one[usable], two[usable], apart[usable]
    scales = (there[one] - there[two]) / apart
    ratio = scales[:, 1] / np.where(scales[:, 0] == 0, 1, scales[:, 0]) / stretch
    least, most = _SCALES
    sane = ((scales > least) & (scales < most)).all(axis=1) & (ratio < _MOST_STRETCH) & (ratio > 1 / _MOST_STRETCH)
    if not sane.any():
        return None
    scales = scales[sane]
    shifts = there[one[sane]] - scales * here[one[sane]]
    errors = np.abs(here * scales[:, None] + shifts[:, None] - there).max(axis=2)
    near = errors < _NEAR
    best = near[int(near.sum(axis=1).argmax())]
    if best.sum() < _LEAST_CORNERS:
        return None
    return np.array([np.polyfit(here[best, axis], there[best, axis], 1) for axis in (0, 1)])


def _compare(picture: Sketch, template: Sketch, scaling: Affine) -> tuple[float, float]:
    height, width = template.thumb.shape
    size = np.array([width, height])
    scale = scaling[:, 0] * size / picture.thumb.shape[::-1]
    shift = scaling[:, 1] * size + scale / 2 - 0.5  # pixels are counted from their centres
    warp = np.array([[scale[0], 0, shift[0]], [0, scale[1], shift[1]]])
    shown = cv2.warpAffine(picture.thumb, warp, (width, height), flags=cv2.INTER_LINEAR)
    there = cv2.warpAffine(np.ones_like(picture.thumb), warp, (width, height), flags=cv2.INTER_NEAREST)
    a, b = (_smooth(each) for each in (np.asarray(shown, np.uint8), template.thumb))
    mean_a, mean_b = _blocks(a), _blocks(b)
    variance_a, variance_b = _blocks(a * a) - mean_a**2, _blocks(b * b) - mean_b**2
    together = _blocks(a * b) - mean_a * mean_b
    textured = variance_b > _TEXTURE
    counted = textured & (_blocks(there.astype(np.float32)) > 0.99)
    if counted.sum() < _LEAST_BLOCKS:
        return 0.0, 0.0
    correlation = together / np.sqrt(np.maximum(variance_a, 1) * np.maximum(variance_b, 1))
    return float((correlation[counted] > _SAME).mean()), float(counted.sum() / textured.sum())


def _smooth(grey: Pixels) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(grey.astype(np.float32), (0, 0), 0.8), np.float32)


def _blocks(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.blur(values, (_BLOCK, _BLOCK))[_BLOCK // 2 :: _STEP, _BLOCK // 2 :: _STEP], np.float32)


def _whole(picture: Sketch, template: Sketch, scaling: Affine) -> Affine:
    """`scaling` between the pictures with their borders."""
    (l1, t1, r1, b1), (l2, t2, r2, b2) = picture.inset, template.inset
    rows = []
    for (scale, shift), low1, high1, low2, high2 in ((scaling[0], l1, r1, l2, r2), (scaling[1], t1, b1, t2, b2)):
        whole = scale * (high2 - low2) / (high1 - low1)
        rows.append((whole, low2 + shift * (high2 - low2) - whole * low1))
    (sx, dx), (sy, dy) = rows
    return np.array([[sx, 0, dx], [0, sy, dy]])
