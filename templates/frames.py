"""Finds plain bars around a picture, such as white margins and black borders, so that they end where they end."""

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

Area = tuple[slice, slice]  # rows and columns

_PLAIN, _SAME = 0.97, 10.0  # share of a row with one colour, and its largest difference, of 255
_SEEN, _WHOLE = 0.1, 0.95  # least share of a row that is known, and of the rows that a bar starts from
_ENOUGH = 1.5  # known pixels between bars, in pixels of the hole: with fewer, what is beyond is looked at, too
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
        if (left[start:end] == 0).sum() < _ENOUGH * (left[start:end] > 0).sum():
            continue
        at = area[axis].indices(picture.shape[axis])[0]
        area = (slice(at + start, at + end), area[1]) if axis == 0 else (area[0], slice(at + start, at + end))
    return area


def _bars(shown: Pixels, hole: Pixels, axis: int) -> tuple[NDArray[np.bool_], Pixels]:
    """Return which rows, or columns, are of plain bars, and their colours."""
    if axis:
        shown, hole = shown.swapaxes(0, 1), hole.T
    known = (hole == 0).mean(axis=1)
    plain = np.zeros(len(shown), np.bool_)
    colours = np.zeros((len(shown), 3), np.uint8)
    for number, (row, covered) in enumerate(zip(shown, hole, strict=True)):
        if known[number] < _SEEN:
            continue
        seen = row[covered == 0]
        colours[number] = np.median(seen[::4], axis=0)
        far = np.abs(seen[::4].astype(np.int16) - colours[number]).max(axis=1)
        plain[number] = (far <= _SAME).mean() >= _PLAIN
    whole = (plain & (known >= _WHOLE)).astype(np.uint8)[:, None]
    bars = cv2.morphologyEx(whole, cv2.MORPH_OPEN, np.ones((_THICK, 1), np.uint8))[:, 0] > 0
    # Rows that words cover a part of belong to the bar beside them.
    alike = plain[1:] & plain[:-1] & (np.abs(np.diff(colours.astype(np.int16), axis=0)).max(axis=1) <= _SAME)
    for number in range(1, len(bars)):
        bars[number] |= bars[number - 1] & alike[number - 1]
    for number in range(len(bars) - 1, 0, -1):
        bars[number - 1] |= bars[number] & alike[number - 1]
    return bars, colours
