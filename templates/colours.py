"""Whether a picture has the colours of a template: brightness alone does not tell a red ground from a blue one.

Memes are faded, turned grey, warmed or oversaturated on their way through the web, and text covers some of them. Hues
survive that. So two places differ only if both have a colour, and those are far apart on the wheel of hues.
"""

from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

Colours: TypeAlias = NDArray[np.int8]

CELLS = 8  # a side
_PLACES = 4  # a side of a cell, that are looked at
_CENTRES = (np.arange(CELLS) + 0.5) / CELLS
_COLOURED = 25.0  # distance from grey, in Cr and Cb; a tint of the whole picture is less
_OTHER_HUE = 0.25  # cosine of the angle from which on a hue is another one: some 75 degrees


def no_colours() -> Colours:
    """Those of a grey picture."""
    return np.zeros((CELLS, CELLS, 2), np.int8)


def colours_of(picture: Pixels) -> Colours:
    """Cr and Cb of a (height, width, 3) BGR picture, less those of grey: (8, 8, 2), over its cells."""
    # A few places of each cell tell its mean, and colours change slowly: exact means would take ten times as long.
    places = cv2.resize(picture, (_PLACES * CELLS, _PLACES * CELLS), interpolation=cv2.INTER_LINEAR)
    cells = cv2.resize(places, (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    return (cv2.cvtColor(cells, cv2.COLOR_BGR2YCrCb)[:, :, 1:].astype(np.int16) - 128).astype(np.int8)


def share_recoloured(picture: Colours, template: Colours, scaling: NDArray[np.float64]) -> float:
    """Share of the template's cells in view that have one hue there and another in the picture, 0-1.

    scaling: (2, 2), a row an axis: takes a place in the picture to one in the template, both in fractions.
    """
    if not (picture.any() and template.any()):
        return 0.0
    (across, left), (down, top) = scaling.tolist()
    # Cells are counted from their centres.
    warp = np.array([[across, 0, CELLS * left + across / 2 - 0.5], [0, down, CELLS * top + down / 2 - 0.5]])
    shown = cv2.warpAffine(picture.astype(np.float32), warp, (CELLS, CELLS), borderMode=cv2.BORDER_REPLICATE)
    # As complex numbers: their angles are hues.
    here, there = (np.asarray(each, np.float32).view(np.complex64)[:, :, 0] for each in (shown, template))
    turn = here * there.conj()
    differ = (turn.real < _OTHER_HUE * np.abs(turn)) & (np.minimum(np.abs(here), np.abs(there)) > _COLOURED)
    columns, rows = ((low < _CENTRES) & (low + side > _CENTRES) for side, low in ((across, left), (down, top)))
    in_view = rows[:, None] & columns
    return int(np.count_nonzero(differ & in_view)) / max(1, int(np.count_nonzero(in_view)))
