"""Finds the lines of a picture with RapidOCR's detector.

The detector's map gives each pixel's probability of lying in a shrunken line (Liao et al., "Real-time Scene Text
Detection with Differentiable Binarization", 2020). A connected patch is a line; its box is grown back. On a small copy
of the picture the map sometimes fades along a line; the rows of such lines are searched again on a larger copy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.models.networks import Picture, network_input

Corners: TypeAlias = NDArray[np.float32]
Map: TypeAlias = NDArray[np.float32]
# Centre, size and angle, as OpenCV has them.
Box: TypeAlias = tuple[tuple[float, float], tuple[float, float], float]

# The network halves its input five times.
_STRIDE = 32
_MAX_SCALE = 4.0  # enlarging more adds nothing
_MAX_EDGE = 128 * _STRIDE  # bounds the memory that a panorama of the same area takes
_PIXEL_THRESHOLD, _LINE_THRESHOLD, _GROWTH = 0.3, 0.4, 1.6
_MIN_EDGE = 3.0
_MAX_LINES = 300

# A line continues while the map stays above `_FAINT`, with gaps of at most `_FAINT_GAP` heights of the patch. It is cut
# if that adds `_CUT` heights.
_FAINT, _FAINT_GAP, _CUT = 0.03, 1.5, 1.0
# The rows searched again: heights above and below, how much larger, and at most how many pixels: many rows, or those of
# a search that is large already, would take more memory than all else.
_ROOM, _CLOSER, _CLOSER_PIXELS = 1.0, 1.6, 736 * 736
# Lines that share this much of the smaller one are the same, and lines that cover this much of another replace it.
_SAME, _COVERED = 0.5, 0.8


@dataclass(frozen=True, slots=True)
class _Found:
    """A line. corners: clockwise from top left, in pixels of the picture. whole: with its faint ends, if it is cut."""

    corners: Corners
    whole: Corners | None


def detect_lines(network: Any, picture: Picture, side: float) -> list[Corners]:
    """Return each line's corners, clockwise from top left, in pixels of the BGR `picture`; lines from the top.

    network: the detector, an ``onnxruntime.InferenceSession``. side: square root of the area given to it.
    """
    height, width = picture.shape[:2]
    scale = min(side / math.sqrt(height * width), _MAX_SCALE)
    found = _detect(network, picture, scale)
    lines = [line.corners for line in found]
    again = [
        line for rows in _cut_rows(found, height) for line in _detect_rows(network, picture, rows, _CLOSER * scale)
    ]
    for cut in found:
        lines = _replace(lines, cut, again) if cut.whole is not None else lines
    return sorted(lines, key=lambda corners: (float(corners[:, 1].min()), float(corners[:, 0].min())))


def _detect(network: Any, picture: Picture, scale: float) -> list[_Found]:
    height, width = picture.shape[:2]
    size = tuple(min(max(round(edge * scale / _STRIDE), 1) * _STRIDE, _MAX_EDGE) for edge in (width, height))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    (found,) = network.run(None, {network.get_inputs()[0].name: network_input(np.asarray(small, np.uint8))})
    stretch, limit = np.array([width / size[0], height / size[1]], np.float32), np.array([width, height], np.float32)
    boxes = _boxes(found[0, 0])
    wholes = [_with_faint_ends(found[0, 0], box) for box in boxes]
    return [
        _Found(np.clip(_grown(box) * stretch, 0, limit), np.clip(_grown(whole) * stretch, 0, limit) if whole else None)
        for box, whole in zip(boxes, wholes, strict=True)
    ]


def _boxes(probabilities: Map) -> list[Box]:
    """Return the shrunken boxes of the lines in a probability map (height, width), in its pixels."""
    mask = (probabilities > _PIXEL_THRESHOLD).astype(np.uint8)
    patches, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    # In noise there are hundreds of specks: they do not count towards the limit before the lines.
    largest = sorted(patches, key=cv2.contourArea, reverse=True)[:_MAX_LINES]
    boxes: list[Box] = [cv2.minAreaRect(patch) for patch in largest]  # type: ignore[misc]
    return [box for box in boxes if min(box[1]) >= _MIN_EDGE and _mean_inside(probabilities, box) >= _LINE_THRESHOLD]


def _mean_inside(probabilities: Map, box: Box) -> float:
    corners = cv2.boxPoints(box)
    left, top = np.maximum(np.floor(corners.min(axis=0)), 0).astype(int)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + 1
    part = probabilities[top:bottom, left:right]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, [np.round(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(part, mask)[0])


def _with_faint_ends(probabilities: Map, box: Box) -> Box | None:
    """Return the box with the ends along which the map fades; None if they add less than a height."""
    (x, y), (width, height), angle = box
    if width < height:
        width, height, angle = height, width, angle - 90
    reach = math.ceil(math.hypot(*probabilities.shape))
    turn = math.radians(angle)
    along = np.array([math.cos(turn), math.sin(turn)])
    # The middle half of the line's row, as wide as the map: the line's centre lies at `reach`.
    rows = max(round(height / 2), 1)
    origin = (x, y) - reach * along - (rows - 1) / 2 * np.array([-along[1], along[0]])
    to_map = np.array([[along[0], -along[1], origin[0]], [along[1], along[0], origin[1]]])
    strip = cv2.warpAffine(probabilities, to_map, (2 * reach + 1, rows), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    places = np.flatnonzero(strip.max(axis=0) > _FAINT) - reach
    runs = np.split(places, np.flatnonzero(np.diff(places) > _FAINT_GAP * height) + 1)
    start, end = next(((float(run[0]), float(run[-1])) for run in runs if run.size and run[0] <= 0 <= run[-1]), (0, 0))
    start, end = min(start, -width / 2), max(end, width / 2)
    if max(-start, end) - width / 2 < _CUT * height:
        return None
    middle = (x, y) + (start + end) / 2 * along
    return (float(middle[0]), float(middle[1])), (end - start, height), angle


def _grown(box: Box) -> Corners:
    """Return the corners of the line whose shrunken box is `box`."""
    centre, (width, height), angle = box
    growth = _GROWTH * width * height / (width + height)
    return _clockwise(np.asarray(cv2.boxPoints((centre, (width + growth, height + growth), angle)), np.float32))


def _clockwise(corners: Corners) -> Corners:
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1], kind="stable")]
    top_right, bottom_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.array([top_left, top_right, bottom_right, bottom_left], np.float32)


def _cut_rows(found: Sequence[_Found], height: int) -> list[tuple[int, int]]:
    """Return the rows of pixels, first and last, around the lines that are cut; none overlap."""
    rows: list[tuple[int, int]] = []
    for line in sorted((line.whole for line in found if line.whole is not None), key=lambda line: line[:, 1].min()):
        room = _ROOM * min(math.dist(line[0], line[1]), math.dist(line[1], line[2])) / 2
        top, bottom = max(math.floor(line[:, 1].min() - room), 0), min(math.ceil(line[:, 1].max() + room), height)
        if rows and top <= rows[-1][1]:
            top, bottom = rows[-1][0], max(bottom, rows.pop()[1])
        rows.append((top, bottom))
    return rows


def _detect_rows(network: Any, picture: Picture, rows: tuple[int, int], scale: float) -> list[Corners]:
    """Return the lines found in these rows of the picture, without those that the rows cut."""
    height, width = picture.shape[:2]
    scale = min(scale, math.sqrt(_CLOSER_PIXELS / (width * (rows[1] - rows[0] + 1))))
    stride = _STRIDE / scale
    tall = math.ceil((rows[1] - rows[0]) / stride) * stride
    top = max(0, min(round((rows[0] + rows[1] - tall) / 2), round(height - tall)))
    bottom = min(height, round(top + tall))
    lines = [line.corners + np.array([0, top], np.float32) for line in _detect(network, picture[top:bottom], scale)]
    return [
        line
        for line in lines
        if (top == 0 or line[:, 1].min() > top + 1) and (bottom == height or line[:, 1].max() < bottom - 1)
    ]


def _replace(lines: list[Corners], cut: _Found, again: Sequence[Corners]) -> list[Corners]:
    """Return `lines` with the new lines along `cut` instead of it, if they cover it, and of what else they cover."""
    new = [line for line in again if cut.whole is not None and _are_same(line, cut.whole)]
    if sum(_shared(line, cut.corners) for line in new) < _COVERED * cv2.contourArea(cut.corners):
        return lines
    return [line for line in lines if not any(_are_same(line, each) for each in new)] + new


def _are_same(a: Corners, b: Corners) -> bool:
    return _shared(a, b) > _SAME * min(cv2.contourArea(a), cv2.contourArea(b))


def _shared(a: Corners, b: Corners) -> float:
    return float(cv2.intersectConvexConvex(a, b)[0])
