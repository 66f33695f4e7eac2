"""Which pixels are letters: the colour of ink is the one whose pixels look like writing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

Colour = NDArray[np.float32]
Box = tuple[slice, slice]

LETTER = 32.0  # pixels: the height of letters at which they are looked for; sizes below are made for it

_LEVELS = 6  # of each channel, when frequent colours are looked for
_MOST_COLOURS, _LEAST_SHARE = 8, 0.015
_DIFFERENT = 40.0  # of 441: two colours that are tried
_SAME = 48.0  # how far the ink's own pixels deviate
_OUTLINE_SAME = 70.0  # likewise those of a thin outline
_SET_OFF = 60.0  # how far what is next to the ink is from it
_THICKEST = 0.42  # stroke, in heights of a letter
_STROKE = 0.3  # likewise, of most letters
_HEIGHTS = (0.45, 1.7)  # of a piece of writing, likewise
_WIDEST = 2.2  # likewise: letters may touch
_LEAST_AREA = 0.05  # of a letter's height, squared
_OUTSIDE = 0.3  # how far the middle of a letter may be outside of the box, in heights of a letter
_WIDEST_OUTLINE = 0.16
_BESIDE = 2.0  # heights of a letter: diameter of what belongs to it
_SURELY = 0.8  # how much letters of another colour have to look like it
_MOSTLY = 0.6  # of the ring around letters has the outline's colour


@dataclass(frozen=True)
class Ink:
    """How a text is set. Colours are BGR, lengths in pixels.

    height: of its letters. width: of its outline; 0 and no `outline` if it has none.
    sure: how much it looks like writing, 0-1.
    """

    height: float
    colour: Colour
    outline: Colour | None
    width: float
    sure: float

    def scaled(self, factor: float) -> Self:
        """In a picture resized by `factor`."""
        return replace(self, height=self.height * factor, width=self.width * factor)


@dataclass(frozen=True)
class _Tried:
    """One colour.

    like: how much its pixels look like writing; sure: that, as far as they are spread over the box; both 0-1.
    same: pixels that have it; letters: those of them that look like writing; both 0 or 1.
    """

    like: float
    sure: float
    colour: Colour
    same: Pixels
    letters: Pixels
    height: float


def find_ink(picture: Pixels, box: Box, height: float) -> tuple[Ink, Pixels] | None:
    """The ink of letters about `height` pixels tall that stand in `box` of a small (height, width, 3) picture.

    Returns:
        How they are set, and their pixels without outline, 255, (height, width); None if nothing looks like writing.
    """
    light = picture.astype(np.float32)
    tried = [found for colour in _colours(light[box]) if (found := _try(light, box, height, colour))]
    if not tried:
        return None
    best = max(tried, key=lambda each: each.sure)
    outline, width = _outline(light, best.letters, height)
    writing = _writing(best, height)
    for other in sorted(tried, key=lambda each: -each.like):
        # Where the ground has the ink's colour, letters show by their outline alone.
        is_outline = outline is not None and np.linalg.norm(other.colour - outline) < _OUTLINE_SAME
        # Other lines may be of another colour.
        if other is not best and (is_outline or other.like > _SURELY):
            writing |= _elsewhere(other, writing, height)
    # If it was the outline that looked most like writing, the ink is between its lines.
    writing = np.asarray(cv2.morphologyEx(writing, cv2.MORPH_CLOSE, disc(_STROKE * height)), np.uint8)
    return Ink(best.height, best.colour, outline, width, best.sure), np.asarray(255 * writing, np.uint8)


def _colours(pixels: NDArray[np.float32]) -> Iterator[Colour]:
    """The frequent colours, the most frequent first."""
    flat = pixels.reshape(-1, 3)
    number = (flat * (_LEVELS / 256)).astype(np.int64) @ (_LEVELS**2, _LEVELS, 1)
    counts = np.bincount(number, minlength=_LEVELS**3)
    sums = np.stack([np.bincount(number, flat[:, channel], _LEVELS**3) for channel in range(3)], axis=1)
    given: list[Colour] = []
    for place in np.argsort(-counts, kind="stable"):
        if counts[place] < max(1, _LEAST_SHARE * len(flat)) or len(given) == _MOST_COLOURS:
            return
        colour = (sums[place] / counts[place]).astype(np.float32)
        if all(np.linalg.norm(colour - other) > _DIFFERENT for other in given):
            given.append(colour)
            yield colour


def _try(light: NDArray[np.float32], box: Box, height: float, colour: Colour) -> _Tried | None:
    difference = light - colour
    distance = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    same = np.asarray(distance < _SAME, np.uint8)
    letters, tall = _letters(_thin(same, height), box, height)
    if not letters.any():
        return None
    ring = _ring(letters, 1, 2)
    thin = letters[box].sum() / max(int(same[box].sum()), 1)
    set_off = (distance[ring] > _SET_OFF).mean() if ring.any() else 0.0
    spread = (cv2.dilate(letters, disc(0.8 * height))[box] > 0).mean()
    like = float(thin**0.5 * set_off)
    return _Tried(like, like * float(spread), colour, same, letters, tall)


def _thin(same: Pixels, height: float) -> Pixels:
    """Of `same`, what is no thicker than a stroke."""
    thick = cv2.dilate(cv2.morphologyEx(same, cv2.MORPH_OPEN, disc(_THICKEST * height)), disc(3))
    return np.where(thick > 0, 0, same).astype(np.uint8)


def _letters(thin: Pixels, box: Box, height: float) -> tuple[Pixels, float]:
    """Of `thin`, pieces of the size of a letter in `box` (0 or 1), and how tall they are."""
    _, labels, stats, centres = cv2.connectedComponentsWithStats(thin, connectivity=4)
    wide, tall, area = stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT], stats[:, cv2.CC_STAT_AREA]
    least, most = _HEIGHTS
    fits = (tall > least * height) & (tall < most * height) & (wide < _WIDEST * height)
    fits &= area > _LEAST_AREA * height**2
    for axis, side in ((0, box[1]), (1, box[0])):
        fits &= (centres[:, axis] > side.start - _OUTSIDE * height) & (centres[:, axis] < side.stop + _OUTSIDE * height)
    fits[0] = False  # what is not in `thin`
    return fits[labels].astype(np.uint8), float(np.median(tall[fits])) if fits.any() else 0.0


def _writing(found: _Tried, height: float) -> Pixels:
    """The letters with what belongs to them: points, commas, and strokes that touch something else."""
    near = cv2.dilate(found.letters, disc(_BESIDE * height))
    return np.where(near > 0, _thin(found.same, height), 0).astype(np.uint8) | found.letters


def _elsewhere(found: _Tried, writing: Pixels, height: float) -> Pixels:
    """Letters away from `writing`, with what belongs to them."""
    seen = cv2.dilate(writing, disc(0.5 * height))
    alone = replace(found, letters=np.where(seen > 0, 0, found.letters).astype(np.uint8))
    return np.where(seen > 0, 0, _writing(alone, height)).astype(np.uint8)


def _outline(light: NDArray[np.float32], letters: Pixels, height: float) -> tuple[Colour | None, float]:
    """The colour that the ring around letters mostly has, and how wide it is."""
    nearest = _ring(letters, 0.4, 1.6)
    if not nearest.any():
        return None, 0.0
    away = cv2.distanceTransform(1 - letters, cv2.DIST_L2, 5)
    colour = np.median(light[(away > 1.4) & (away <= 2.6)], axis=0).astype(np.float32)
    most, width = max(2, round(_WIDEST_OUTLINE * height)), 0
    for distance in range(1, most + 1):
        ring = (away > distance + 0.4) & (away <= distance + 1.4)
        if not ring.any() or not _mostly(light[ring], colour):
            break
        width = distance
    ground = (away > 1.5 * most) & (away <= 1.5 * most + 2)
    # What goes on and on is no outline: it is what the letters stand on.
    if width == most and ground.any() and _mostly(light[ground], colour):
        width = 0
    return (colour, float(width)) if width else (None, 0.0)


def _mostly(pixels: NDArray[np.float32], colour: Colour) -> bool:
    return bool((np.linalg.norm(pixels - colour, axis=1) < _OUTLINE_SAME).mean() > _MOSTLY)


def _ring(letters: Pixels, inner: float, outer: float) -> NDArray[np.bool_]:
    """What is that far from letters, in pixels."""
    near, nearer = (np.asarray(cv2.dilate(letters, disc(2 * far + 1))) > 0 for far in (outer, inner))
    return near & ~nearer


def disc(diameter: float) -> Pixels:
    """A round neighbourhood for morphology, of an odd number of pixels across."""
    across = max(1, round(diameter)) | 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (across, across)), np.uint8)
