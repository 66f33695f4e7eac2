"""Heat map of where a template's memes have text, in the template's coordinates (`templates.placing`)."""

import base64
from collections.abc import Iterable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.placing import Affine, place
from memeloom.templates.recover import grey_of
from memeloom.templates.sketch import Sketch, sketch

Counts = NDArray[np.float32]

_CELLS = 96  # on the longer side
_LEAST_AGREEMENT = 0.4
_COLOUR = (40, 90, 255)  # BGR
_FAINTEST, _STRONGEST = 40, 190


def count_texts(template: Pixels, memes: Iterable[tuple[Pixels, Sequence[OcrBox]]]) -> tuple[Counts, int]:
    """Count the memes with text in each cell of the template, (height, width), and the memes placed. BGR pictures."""
    height, width = template.shape[:2]
    scale = _CELLS / max(height, width)
    counts = np.zeros((max(1, round(height * scale)), max(1, round(width * scale))), np.float32)
    shown, placed = sketch(grey_of(template)), 0
    for picture, boxes in memes:
        where = _placed(sketch(grey_of(picture)), shown)
        if where is not None and boxes:
            placed += 1
            counts += _covered(boxes, where, counts.shape)
    return counts, placed


def draw_heat(counts: Counts, placed: int) -> str:
    """Return the counts as the ``data:`` address of a PNG, more opaque where more of the `placed` memes have text."""
    share = counts / max(placed, 1)
    layer = np.empty((*counts.shape, 4), np.uint8)
    layer[:, :, :3] = _COLOUR
    layer[:, :, 3] = np.where(share > 0, _FAINTEST + share * (_STRONGEST - _FAINTEST), 0)
    _, data = cv2.imencode(".png", layer)
    return "data:image/png;base64," + base64.b64encode(data.tobytes()).decode()


def _placed(meme: Sketch, template: Sketch) -> Affine | None:
    """Return the map from the meme to the template, in fractions; None if it does not show the template."""
    straight, mirrored = place(meme, template), place(meme.mirrored, template)
    # Half of a picture may match its own mirror image better than all of it matches itself.
    best = max(
        (found for found in (straight, mirrored) if found),
        key=lambda found: found.agreement * found.seen,
        default=None,
    )
    if best is None or not best.shows(_LEAST_AGREEMENT):
        return None
    if best is not mirrored:
        return best.affine
    (sx, _, dx), down = best.affine
    return np.array([[-sx, 0, dx + sx], down])


def _covered(boxes: Sequence[OcrBox], where: Affine, shape: tuple[int, ...]) -> Counts:
    cells = np.zeros(shape, np.float32)
    for box in boxes:
        ends = np.array([[box.x, box.y, 1], [box.x + box.width, box.y + box.height, 1]]) @ where.T * shape[::-1]
        (left, top), (right, bottom) = np.sort(ends, axis=0)
        cells[_cells(top, bottom, shape[0]), _cells(left, right, shape[1])] = 1
    return cells


def _cells(start: float, end: float, most: int) -> slice:
    return slice(min(max(int(start), 0), most), min(max(int(np.ceil(end)), 0), most))
