"""Where a template stands in a picture: found by corners that agree, verified by the pixels between them.

Corners of strangers look alike now and then, but not in places that one scaling and one shift explain, and
then the rest of the picture differs. So a match is what looks the same block by block: text covers some
blocks of a template, never most of them. And a template in other colours is another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.templates.colours import share_recoloured
from memeloom.templates.corners import Points
from memeloom.templates.sketch import SIDES, Sketch

Affine = NDArray[np.float64]

_ALIKE = 70  # bits of 256 in which two descriptions of one corner may differ
_NEAR = (24.0, 12.0, 6.0)  # pixels that a corner may lie from where the others say, at first and when that is settled
_LEAST_CORNERS = 3
_GUESSES = 32  # corners whose shift is asked for the others' opinion
_FIRM = 100.0  # square pixels: how far corners are apart before they say more about a scale than that it is near one
_MOST_SCALED = 1.5  # between the sizes at which two corners look alike,
_MOST_STRETCH = 1.4  # and in one direction more than in the other: memes are resized without keeping proportions
_BLOCK, _STEP = 8, 4  # pixels of the thumbnail; blocks overlap by half
_TEXTURE = 40.0  # variance of a block's brightness below which it shows nothing
_DETAIL = 25.0  # mean square of the change from one pixel to the next but one, in both directions, likewise
_SAME = 0.7  # correlation of two blocks that show the same
_LEAST_BLOCKS = 16
_LEAST_SEEN = 0.4
_MOST_RECOLOURED = 0.15  # of the template in view: what is stuck on a meme, or drawn on it, is less
_UNSEEN = 0.25  # of what is not in view, how much more the rest must agree: a line of text is like another

_matcher = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True)


@dataclass(frozen=True)
class Placing:
    """How a template stands in a picture.

    agreement: share of the template's blocks in view that the picture shows, 0-1. Blocks without texture do not count.
    seen: share of the template's blocks with texture that are in view.
    mirrored: the picture is to be mirrored first.
    affine: (2, 3), takes x and y in the (mirrored) whole picture to x and y in the whole template, both in fractions.
    recoloured: share of the template in view that has another hue in the picture, 0-1.
    """

    agreement: float
    seen: float
    mirrored: bool
    affine: Affine
    recoloured: float = 0.0

    def shows(self, min_agreement: float) -> bool:
        """The verdict: whether the picture shows the template. min_agreement: of one that is wholly in view."""
        if self.seen < _LEAST_SEEN or self.recoloured > _MOST_RECOLOURED:
            return False
        return self.agreement >= min_agreement + _UNSEEN * (1 - self.seen)


def place(picture: Sketch, template: Sketch) -> Placing | None:
    """Where `template` stands in `picture`, which is not mirrored; None if their corners do not agree."""
    first = picture.counts[0]
    best, start = None, 0
    for level, count in enumerate(template.counts):
        if first and count:
            bits = template.bits[start : start + count]
            alike = [
                (m.queryIdx, m.trainIdx) for m in _matcher.match(picture.bits[:first], bits) if m.distance < _ALIKE
            ]
            here, there = np.array(alike, np.int64).reshape(-1, 2).T
            found = settle(picture, template, level, picture.points[here], template.points[start + there])
            # A strip of a picture may agree better than the whole.
            if found and (best is None or found.agreement * found.seen > best.agreement * best.seen):
                best = found
        start += count
    return best


def settle(picture: Sketch, template: Sketch, level: int, here: Points, there: Points) -> Placing | None:
    """How well the picture shows the template where most of some pairs of corners say.

    here, there: (n, 2) each, fractions as in the sketches. level: of `SIDES`, at which the template's were found.
    """
    if len(here) < _LEAST_CORNERS:
        return None
    size, other = size_at(picture, 0), size_at(template, level)
    fitted = _fit(here * size, there * other)
    if fitted is None:
        return None
    scaling = np.stack([fitted[:, 0] * size / other, fitted[:, 1] / other], axis=1)
    agreement, seen = _compare(picture, template, scaling)
    hues = share_recoloured(picture.colours, template.colours, scaling)
    return Placing(agreement, seen, False, _whole(picture, template, scaling), hues)


def size_at(sketch: Sketch, level: int) -> NDArray[np.float32]:
    """Width and height of the picture as it was when corners were looked for, near enough."""
    height, width = sketch.thumb.shape
    return np.array([width, height], np.float32) * np.float32(SIDES[level] / (width * height) ** 0.5)


def _fit(here: Points, there: Points) -> Affine | None:
    """The scaling and shift that takes most of `here` near `there`, in pixels: (2, 2), a row an axis.

    Corners look alike at one scale, so at first only the shift is asked for.
    """
    shifts = there - here
    (x, y), (x_of_some, y_of_some) = shifts.T, shifts[:_GUESSES, :, None].transpose(1, 0, 2)
    close = (np.abs(x - x_of_some) < _NEAR[0]) & (np.abs(y - y_of_some) < _NEAR[0])
    kept = close[int(np.count_nonzero(close, axis=1).argmax())]
    for near in _NEAR[1:]:
        if kept.sum() < _LEAST_CORNERS:
            return None
        x, y = here[kept], there[kept]
        mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
        dx, dy = x - mean_x, y - mean_y
        # Few corners in a row say little about the scale across: then it stays near one.
        scale = ((dx * dy).sum(axis=0) + _FIRM) / ((dx * dx).sum(axis=0) + _FIRM)
        shift = mean_y - scale * mean_x
        kept = np.asarray(np.all(np.abs(here * scale + shift - there) < near, axis=1))
    if kept.sum() < _LEAST_CORNERS or min(scale) * _MOST_SCALED < 1 or max(scale) > _MOST_SCALED:
        return None
    if max(scale[0] / scale[1], scale[1] / scale[0]) > _MOST_STRETCH:
        return None
    return np.stack([scale, shift], axis=1)


def _compare(picture: Sketch, template: Sketch, scaling: Affine) -> tuple[float, float]:
    """Agreement and share seen, at the resolution of the one that shows less."""
    size = np.array(template.thumb.shape[::-1])
    scale = scaling[:, 0] * size / picture.thumb.shape[::-1]
    smaller = max(1.0, float(np.sqrt(scale.prod())))
    wanted = template.thumb
    if smaller > 1.15:
        size = np.maximum(np.rint(size / smaller), _BLOCK).astype(np.int64)
        wanted = np.asarray(cv2.resize(wanted, size.tolist(), interpolation=cv2.INTER_AREA), np.uint8)
        scale = scaling[:, 0] * size / picture.thumb.shape[::-1]
    shift = scaling[:, 1] * size + scale / 2 - 0.5  # pixels are counted from their centres
    width, height = size.tolist()
    warp = np.array([[scale[0], 0, shift[0]], [0, scale[1], shift[1]]])
    shown = cv2.warpAffine(picture.thumb, warp, (width, height), flags=cv2.INTER_LINEAR)
    a, b = _smooth(np.asarray(shown, np.uint8)), _smooth(wanted)
    across, down = (cv2.Sobel(b, cv2.CV_32F, *axes, ksize=1) for axes in ((1, 0), (0, 1)))
    layers = (a, b, a * a, b * b, a * b, across * across, down * down)
    mean_a, mean_b, square_a, square_b, product, change_x, change_y = _blocks(layers)
    variance_a, variance_b = square_a - mean_a**2, square_b - mean_b**2
    # One straight edge, of a panel or a border, is like any other: only what changes in both directions counts.
    textured = (variance_b > _TEXTURE) & (np.minimum(change_x, change_y) > _DETAIL)
    columns, rows = (
        _in_view(first, first + factor * there, length)
        for first, factor, there, length in zip(shift, scale, picture.thumb.shape[::-1], (width, height), strict=True)
    )
    counted = textured & rows[:, None] & columns
    if counted.sum() < _LEAST_BLOCKS:
        return 0.0, 0.0
    correlation = (product - mean_a * mean_b) / np.sqrt(np.maximum(variance_a, 1) * np.maximum(variance_b, 1))
    return float((correlation[counted] > _SAME).mean()), float(counted.sum() / textured.sum())


def _in_view(first: float, last: float, length: int) -> NDArray[np.bool_]:
    """Which blocks of a line of pixels lie between two places, give or take half a pixel."""
    starts = np.arange(length // _STEP - 1) * _STEP
    return (starts > first - 0.5) & (starts + _BLOCK < last + 0.5)


def _smooth(grey: Pixels) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(grey.astype(np.float32), (3, 3), 0.8), np.float32)


def _blocks(layers: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The means of each layer over all blocks, (layers, rows, columns)."""
    rows, columns = layers[0].shape[0] // _STEP, layers[0].shape[1] // _STEP
    cells = np.stack([
        cv2.resize(layer[: rows * _STEP, : columns * _STEP], (columns, rows), interpolation=cv2.INTER_AREA)
        for layer in layers
    ])  # fmt: skip
    pairs = cells[:, 1:] + cells[:, :-1]
    return np.asarray((pairs[:, :, 1:] + pairs[:, :, :-1]) / 4, np.float32)


def _whole(picture: Sketch, template: Sketch, scaling: Affine) -> Affine:
    """`scaling` between the pictures with their borders."""
    (l1, t1, r1, b1), (l2, t2, r2, b2) = picture.inset, template.inset
    rows = []
    for (scale, shift), low1, high1, low2, high2 in ((scaling[0], l1, r1, l2, r2), (scaling[1], t1, b1, t2, b2)):
        whole = scale * (high2 - low2) / (high1 - low1)
        rows.append((whole, low2 + shift * (high2 - low2) - whole * low1))
    (sx, dx), (sy, dy) = rows
    return np.array([[sx, 0, dx], [0, sy, dy]])
