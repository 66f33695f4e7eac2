"""Fills holes in a picture from their surroundings: smooth ones by diffusion, others with patches of them."""

import cv2
import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.templates.diffusion import diffuse
from memeloom.templates.frames import Area, without_bars
from memeloom.templates.panels import Panel
from memeloom.templates.patches import fill_from_patches

_AROUND = 24  # pixels around words that are used by diffusion
_PATCHES_AROUND = 80  # pixels around words that patches are taken from
_BESIDE = 8  # pixels beside words that are looked at
_TEXTURED = 0.9  # of 255: their mean difference from the smoothed picture
_EDGES, _HARD = 0.02, 8.0  # share of them at edges, and the least difference there
_FLAT, _MOSTLY = 6.0, 0.8  # of 255: largest difference of a plain panel's colours; and least share of it


def inpaint(picture: Pixels, mask: Pixels, *, textures: bool = True) -> Pixels:
    """Fill a (height, width, 3) picture where `mask` is not 0; the rest stays bit for bit.

    textures: continue those around a hole. False fills all smoothly: visible, but the mean error is smaller.
    """
    filled, left = picture.copy(), mask.copy()
    count, labels, stats, _ = cv2.connectedComponentsWithStats(_joined(mask), connectivity=8)
    for number, (x, y, width, height, _) in enumerate(stats[1:count], 1):
        near, wide = (
            (slice(max(0, y - far), y + height + far), slice(max(0, x - far), x + width + far))
            for far in (_AROUND, _PATCHES_AROUND)
        )
        if textures:
            # Margins and borders are no part of the picture between them.
            wide = without_bars(filled, left, wide)
            if not left[near][labels[near] == number].any():
                continue
            near = _within(near, wide)
        textured = textures and _is_textured(filled[near], left[near])
        area, fill = (wide, fill_from_patches) if textured else (near, _fill)
        # Others in reach are filled with what is around them.
        own = (labels[area] == number) & (left[area] > 0)
        filled[area][own] = fill(filled[area], left[area])[own]
        left[area][own] = 0
    return filled


def fill_panel(picture: Pixels, panel: Panel, mask: Pixels) -> None:
    """Fill `panel` where `mask` is not 0 with its colour, in place; clear the mask there."""
    area = picture[panel.area]
    inside = panel.letters > 0
    if not panel.inner.all():
        inside |= (panel.inner > 0) & (panel.others == 0)
    words = inside & (mask[panel.area] > 0)
    known = ~words & (panel.letters == 0) & (panel.others == 0)
    if known.any():
        # Of a panel of one colour, its soft rim is no part.
        flat = known & (np.abs(area - np.median(area[known], axis=0)).max(axis=2) <= _FLAT)
        known = flat if flat.sum() > _MOSTLY * known.sum() else known
    filled = _fill(area, np.asarray(255 * ~known, np.uint8))
    area[words] = filled[words]
    mask[panel.area][words] = 0


def _within(area: Area, other: Area) -> Area:
    """Return the part of an area that is in another."""
    rows, columns = (
        slice(max(one.start, two.start), min(one.stop, two.stop)) for one, two in zip(area, other, strict=True)
    )
    return rows, columns


def _joined(mask: Pixels) -> Pixels:
    """Join the letters of one text, to be filled at once."""
    return np.asarray(cv2.dilate(mask, np.ones((_AROUND, _AROUND), np.uint8)), np.uint8)


def _is_textured(picture: Pixels, mask: Pixels) -> bool:
    known = np.asarray(mask == 0, np.float32)
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY).astype(np.float32)
    smoothed = cv2.blur(grey * known, (9, 9)) / np.maximum(cv2.blur(known, (9, 9)), 1e-6)
    near = cv2.dilate(mask, np.ones((2 * _BESIDE + 1, 2 * _BESIDE + 1), np.uint8)) > 0
    rough = np.abs(grey - smoothed)[near & (known > 0)]
    return bool(rough.size and (rough.mean() > _TEXTURED or (rough > _HARD).mean() > _EDGES))


def _fill(picture: Pixels, mask: Pixels) -> Pixels:
    known = mask == 0
    if known.all() or not known.any():
        return picture
    colours = diffuse(picture.astype(np.float32), known)[0][0]
    return np.where(known[:, :, None], picture, np.rint(colours)).clip(0, 255).astype(np.uint8)
