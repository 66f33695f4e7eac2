"""Where the lines of a picture are: the PP-OCR detector, and boxes out of the map that it draws.

The map says of every pixel how surely it lies in a shrunken line (Liao et al., "Real-time Scene Text Detection with
Differentiable Binarization", 2020). A patch of sure pixels is a line; its upright or tilted box is grown back by what
the training shrank it.
"""

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Corners = NDArray[np.float32]

# The network halves its input five times.
_STEP = 32
# Enlarging more shows the network nothing new.
_LARGEST_SCALE = 4.0
# A panorama of the same area must not become a strip that nothing can hold.
_LONGEST_EDGE = 128 * _STEP
# How sure a pixel must be to belong to a line, and how sure a line's pixels in the mean; by how much boxes grow.
_PIXEL, _LINE, _GROWTH = 0.3, 0.5, 1.6
_LEAST_EDGE = 3.0
_MOST_LINES = 300


def find_lines(network: Any, picture: Picture, side: float) -> list[Corners]:
    """Corners of each line, clockwise from its top left, in pixels of `picture`; top to bottom.

    network: the detector, an ``onnxruntime.InferenceSession``.
    picture: BGR, of shape (height, width, 3).
    side: the picture is scaled so that its area is about the square of this.
    """
    height, width = picture.shape[:2]
    scale = min(side / math.sqrt(height * width), _LARGEST_SCALE)
    size = tuple(min(max(round(edge * scale / _STEP), 1) * _STEP, _LONGEST_EDGE) for edge in (width, height))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    (found,) = network.run(None, {network.get_inputs()[0].name: planes(np.asarray(small, np.uint8))})
    stretch = np.array([width / size[0], height / size[1]], np.float32)
    rim = np.array([width, height], np.float32)
    lines = [np.clip(corners * stretch, 0, rim) for corners in _boxes(found[0, 0])]
    return sorted(lines, key=lambda corners: (float(corners[:, 1].min()), float(corners[:, 0].min())))


def planes(picture: Picture) -> NDArray[np.float32]:
    """A picture as the networks take it: (1, 3, height, width), BGR, -1 to 1."""
    return np.asarray(cv2.dnn.blobFromImage(picture, 1 / 127.5, mean=(127.5, 127.5, 127.5)), np.float32)


def _boxes(sureness: NDArray[np.float32]) -> list[Corners]:
    """Corners of the lines in a map of shape (height, width), in its pixels."""
    patches, _ = cv2.findContours((sureness > _PIXEL).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes = []
    for patch in patches[:_MOST_LINES]:
        centre, (width, height), angle = cv2.minAreaRect(patch)
        if min(width, height) < _LEAST_EDGE or _mean_inside(sureness, (centre, (width, height), angle)) < _LINE:
            continue
        growth = 2 * _GROWTH * width * height / (2 * (width + height))
        grown = width + growth, height + growth
        boxes.append(_clockwise(np.asarray(cv2.boxPoints((centre, grown, angle)), np.float32)))
    return boxes


def _mean_inside(sureness: NDArray[np.float32], box: Any) -> float:
    """The mean of the map within a tilted box."""
    corners = cv2.boxPoints(box)
    left, top = np.maximum(np.floor(corners.min(axis=0)), 0).astype(int)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + 1
    part = sureness[top:bottom, left:right]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, [np.round(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(part, mask)[0])


def _clockwise(corners: Corners) -> Corners:
    """The same corners, the top left first."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1], kind="stable")]
    top_right, bottom_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.array([top_left, top_right, bottom_right, bottom_left], np.float32)
