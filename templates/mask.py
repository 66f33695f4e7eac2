"""Where words stand in a picture, to the pixel: from the boxes that were read to the letters and their outline.

A box tells about where the letters are and how large. Inside it every frequent colour is tried as that of the ink:
letters are thin, of about one height, spread over the box, and set off sharply from what is around them. The colour
that looks most like that is the ink, the ring around it shows the outline. Where no colour does, nobody can tell
letters from picture, and the whole box is the mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.ink import LETTER, Ink, disc, find_ink

_WIDTH_OF_LETTER = 0.5  # of a letter's height, on average, with its share of the spaces
_PITCH = 1.3  # from line to line, in heights of a letter
_MOST_LINES = 12
_AROUND = 0.45  # how far letters may stand outside of their box, in heights of a letter
_OTHER_HEIGHTS = (0.65, 1.5)  # of the one guessed, tried where that shows no letters: text that is turned, say
_SURE, _LEAST_SURE = 0.7, 0.3
_HALO = 0.03  # of a letter's height, and two pixels: what compression leaves around letters
_WHOLE = 0.15  # likewise, that a box is grown by where it is the mask
_LARGEST_FACTOR = 4.0  # that small letters are enlarged by


@dataclass(frozen=True)
class Words:
    """The words of a picture.

    mask: (height, width), 255 where they or the blur around them stand, else 0.
    inks: how each box is set, in their order; None where letters could not be told from the picture.
    """

    mask: Pixels
    inks: tuple[Ink | None, ...]


def find_words(picture: Pixels, boxes: Sequence[OcrBox]) -> Words:
    """The pixels of a (height, width, 3) picture on which the texts of `boxes` stand. Boxes without text have none."""
    mask = np.zeros(picture.shape[:2], np.uint8)
    return Words(mask, tuple(_find(picture, box, mask) for box in boxes))


def letter_height(text: str, width: float, height: float) -> float:
    """How tall the capitals of `text` are if it fills a box of `width` x `height`, in the same units.

    The number of lines is the one at which letters of usual proportions fill the width.
    """
    letters = max(1, len(text.strip()))
    heights = [height / (1.05 + _PITCH * line) for line in range(_MOST_LINES)]
    widths = np.array([_WIDTH_OF_LETTER * tall * letters / (line + 1) for line, tall in enumerate(heights)])
    return heights[int(np.abs(np.log(widths / max(width, 1e-9))).argmin())]


def _find(picture: Pixels, box: OcrBox, mask: Pixels) -> Ink | None:
    """Add the words of one box to `mask`."""
    tall, wide = mask.shape
    left, top = max(0.0, box.x * wide), max(0.0, box.y * tall)
    right, bottom = min(float(wide), (box.x + box.width) * wide), min(float(tall), (box.y + box.height) * tall)
    if not box.text.strip() or right - left < 1 or bottom - top < 1:
        return None
    height = max(2.0, letter_height(box.text, right - left, bottom - top))
    found = _look(picture, (left, top, right, bottom), height)
    if found is None or found[0].sure < _SURE:
        others = [_look(picture, (left, top, right, bottom), height * factor) for factor in _OTHER_HEIGHTS]
        found = max((each for each in (found, *others) if each), key=lambda each: each[0].sure, default=None)
    if found is None or found[0].sure < _LEAST_SURE:
        more = _WHOLE * height + 1
        mask[max(0, int(top - more)) : int(bottom + more) + 1, max(0, int(left - more)) : int(right + more) + 1] = 255
        return None
    ink, strokes, (x, y) = found
    mask[y : y + strokes.shape[0], x : x + strokes.shape[1]] |= strokes
    return ink


def _look(
    picture: Pixels, box: tuple[float, float, float, float], height: float
) -> tuple[Ink, Pixels, tuple[int, int]] | None:
    """The ink of letters about `height` pixels tall in and around `box`, its pixels, and where those begin."""
    left, top, right, bottom = box
    more = _AROUND * height + 2
    x, y = max(0, int(left - more)), max(0, int(top - more))
    area = picture[y : int(np.ceil(bottom + more)), x : int(np.ceil(right + more))]
    # Letters are looked for at one height, whatever they have in the picture.
    factor = min(LETTER / height, _LARGEST_FACTOR)
    size = max(1, round(area.shape[1] * factor)), max(1, round(area.shape[0] * factor))
    scaled = np.asarray(
        cv2.resize(area, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC), np.uint8
    )
    inner = (
        slice(round((top - y) * factor), round((bottom - y) * factor) + 1),
        slice(round((left - x) * factor), round((right - x) * factor) + 1),
    )
    found = find_ink(scaled, inner, height * factor)
    if found is None:
        return None
    ink, strokes = found
    whole = cv2.resize(strokes, area.shape[1::-1], interpolation=cv2.INTER_LINEAR) > 64
    grown = cv2.dilate(np.asarray(whole, np.uint8), disc(2 * (ink.width / factor + 2 + _HALO * height) + 1))
    return ink.scaled(1 / factor), np.asarray(255 * grown, np.uint8), (x, y)
