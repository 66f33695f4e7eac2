"""Finds plain bars around a picture, such as white margins and black borders, so that they end where they end."""

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

Area = tuple[slice, slice]  # rows and columns

_PLAIN, _SAME = 0.97, 10.0  # share of a row with one colour, and its largest difference, of 255
_SEEN = 0.25  # least share of a row that is known
_THICK = 3  # pixels: narrower ones are no bars


def without_bars(picture: Pixels, hole: Pixels, area: Area) -> Area:
    """Fill the hole where it covers plain bars across an area, in place; return the area between the bars around it."""
    for axis in (0, 1):
        shown, left = picture[area], hole[area]
        bars, colours = _bars(shown, left, axis)
        if axis:
            shown, left = shown.swapaxes(0, 1), left.T
        covered = bars[:, None] & (left > 0)
        shown[covered] = np.broadcast_to(colours[:, None], shown.shape)[covered]
        left[covered] = 0
        holes = np.flatnonzero(left.any(axis=1))
        if not holes.size:
            return area
        start = max(np.flatnonzero(bars[: holes[0]]), default=-1) + 1
        end = min(np.flatnonzero(bars[holes[-1] :]), default=len(bars) - holes[-1]) + holes[-1]
        at = area[axis].indices(picture.shape[axis])[0]
        area = (slice(at + start, at + end), area[1]) if axis == 0 else (area[0], slice(at + start, at + end))
    return area


def _bars(shown: Pixels, hole: Pixels, axis: int) -> tuple[NDArray[np.bool_], Pixels]:
    """Return which rows, or columns, are of plain bars, and their colours."""
    if axis:
        shown, hole = shown.swapaxes(0, 1), hole.T
    plain = np.zeros(len(shown), np.bool_)
    colours = np.zeros((len(shown), 3), np.uint8)
    for number, (row, covered) in enumerate(zip(shown, hole, strict=True)):
        seen = row[covered == 0]
        if len(seen) < _SEEN * len(row):
            continue
        colours[number] = np.median(seen[::4], axis=0)
        far = np.abs(seen[::4].astype(np.int16) - colours[number]).max(axis=1)
        plain[number] = (far <= _SAME).mean() >= _PLAIN
    thick = cv2.morphologyEx(plain.astype(np.uint8)[:, None], cv2.MORPH_OPEN, np.ones((_THICK, 1), np.uint8))
    return thick[:, 0] > 0, colours
