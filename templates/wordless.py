"""One meme without its words: what the template shows under them, else what is around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.align import lay_on
from memeloom.templates.inpaint import fill_even_ground, inpaint
from memeloom.templates.mask import find_words, letter_height
from memeloom.templates.placing import Affine
from memeloom.templates.recover import Ground, Laid, Member, grey_of, lay
from memeloom.templates.sketch import sketch

_LARGEST = 4_000_000  # pixels; a larger picture is made smaller first
_WORDS = 36  # of 255: what differs from the template by more is words
_HALO = 7  # pixels around words
_SPECK = 3  # pixels: what differs no farther than that is compression at a hard edge
_NEAR = 0.6  # heights of a letter around what was read where other letters may stand
_SCALES, _SHIFTS = (0.7, 1.4), 40.0  # by which a meme may be lighter or darker than its template


@dataclass(frozen=True)
class Blank:
    """A template's clean picture, BGR, and what memes are laid on."""

    picture: Pixels
    ground: Ground

    @classmethod
    def of(cls, picture: Pixels) -> "Blank":
        """`picture` as template."""
        return cls(picture, Ground.of(picture))


@dataclass(frozen=True)
class Wordless:
    """A meme without its words. mask: 255 where they stood, of the same size as the picture, BGR."""

    picture: Pixels
    mask: Pixels
    method: Literal["inpaint", "template"]


def take_words_off(picture: Pixels, boxes: Sequence[OcrBox], blank: Blank | None = None) -> Wordless | None:
    """A (height, width, 3) picture without the words of `boxes`; None if there are none, or none is known.

    blank: the meme's template. If the meme can be laid on it, words are what differs from it near `boxes` (anywhere
        if there are none), and the template is what is under them. What it does not show (a strip added above)
        is done as without it.
    """
    picture = _bounded(picture)
    boxes = [box for box in boxes if box.text.strip()]
    laid = blank and lay(Member("", picture, tuple(boxes)), sketch(grey_of(picture)), blank.ground)
    if blank and laid:
        return _by_template(picture, boxes, blank, laid)
    return _filled(picture, find_words(picture, boxes).mask, boxes)


def _filled(picture: Pixels, mask: Pixels, boxes: Sequence[OcrBox]) -> Wordless | None:
    return Wordless(inpaint(*fill_even_ground(picture, mask, boxes)), mask, "inpaint") if mask.any() else None


def _by_template(picture: Pixels, boxes: Sequence[OcrBox], blank: Blank, laid: Laid) -> Wordless | None:
    height, width = picture.shape[:2]
    under, there = lay_on(blank.picture, _inverse(laid.affine), (width, height))
    words = laid.words.mask
    if laid.mirrored:
        under, there, words = (np.ascontiguousarray(each[:, ::-1]) for each in (under, there, words))
    under = _lit_like(under, picture, there, words)
    different = (cv2.absdiff(picture, under).max(axis=2) > _WORDS) & (there > 0) & _near(boxes, width, height)
    ink = cv2.morphologyEx(different.astype(np.uint8), cv2.MORPH_OPEN, np.ones((_SPECK, _SPECK), np.uint8))
    ink = (ink > 0) | (different & (words > 0))  # thin letters, where some were seen
    shown = np.asarray(255 * cv2.dilate(ink.astype(np.uint8), np.ones((_HALO, _HALO), np.uint8)), np.uint8)
    shown[there == 0] = 0
    beyond = np.where(there > 0, 0, words).astype(np.uint8)
    if not shown.any():
        return _filled(picture, beyond, boxes)
    replaced = np.where(shown[:, :, None] > 0, under, picture).astype(np.uint8)
    rest = _filled(replaced, beyond, boxes)
    return Wordless(rest.picture if rest else replaced, shown | beyond, "template")


def _near(boxes: Sequence[OcrBox], width: int, height: int) -> NDArray[np.bool_]:
    """Where other letters of the texts may stand; everywhere if none was read."""
    near = np.zeros((height, width), np.bool_) if boxes else np.ones((height, width), np.bool_)
    for box in boxes:
        more = _NEAR * letter_height(box.text, box.width * width, box.height * height) + _HALO
        top, bottom = box.y * height - more, (box.y + box.height) * height + more
        left, right = box.x * width - more, (box.x + box.width) * width + more
        near[max(0, round(top)) : max(0, round(bottom)), max(0, round(left)) : max(0, round(right))] = True
    return near


def _lit_like(under: Pixels, picture: Pixels, there: Pixels, words: Pixels) -> Pixels:
    """The template as light and as strong in its colours as the meme is beside its words."""
    seen = (there > 0) & (words == 0) & (cv2.absdiff(under, picture).max(axis=2) < 2 * _WORDS)
    if seen.sum() < 100:
        return under
    lit = under.astype(np.float32)
    for channel in range(3):
        one, other = (each[:, :, channel][seen].astype(np.float64) for each in (under, picture))
        spread = float(one.std())
        slope = float(np.mean((one - one.mean()) * (other - other.mean()))) / spread**2 if spread > 1 else 1.0
        slope = min(max(slope, _SCALES[0]), _SCALES[1])
        shift = float(other.mean()) - slope * float(one.mean())
        lit[:, :, channel] = lit[:, :, channel] * slope + min(max(shift, -_SHIFTS), _SHIFTS)
    return np.clip(np.rint(lit), 0, 255).astype(np.uint8)


def _inverse(affine: Affine) -> Affine:
    (sx, _, dx), (_, sy, dy) = affine
    return np.array([[1 / sx, 0, -dx / sx], [0, 1 / sy, -dy / sy]])


def _bounded(picture: Pixels) -> Pixels:
    height, width = picture.shape[:2]
    factor = (_LARGEST / (height * width)) ** 0.5
    if factor >= 1:
        return picture
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
