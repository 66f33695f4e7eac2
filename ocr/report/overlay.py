"""A picture with what was read in it drawn over it, as SVG that holds the picture itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.embed import embed

# The least confidence of each band; engines differ in what theirs is worth, these tell the sure from the doubtful.
BANDS = {"sure": 95, "fair": 85, "doubtful": 70, "poor": 0}
# Numbers stand on the corners of boxes, which may be the picture's own.
_RIM, _BADGE = 14, 11


@dataclass(frozen=True, slots=True)
class Mark:
    """Something in the picture: where, in fractions of it, and what is said when one points at it.

    number: of a text box; None for a word. gone: it was taken out of the reading. empty: a place without a text.
    """

    x: float
    y: float
    width: float
    height: float
    confidence: float
    said: str
    number: int | None = None
    gone: bool = False
    empty: bool = False


def band(confidence: float) -> str:
    """How sure that is, in a word: the class of its colour."""
    return next(name for name, least in BANDS.items() if confidence >= least or not least)


def draw_over(picture: NDArray[np.uint8], marks: Sequence[Mark], across: int, side: int, quality: int) -> str:
    """`picture` (BGR) with `marks` over it, as an SVG element that takes the width it is given.

    across: units of the picture's width; the width in which strokes and numbers are drawn as they should.
    side, quality: the picture is embedded as a JPEG no longer than `side` pixels.
    """
    high = across * picture.shape[0] / picture.shape[1]
    words = [_word(mark, across, high) for mark in marks if mark.number is None]
    boxes = [_box(mark, across, high) for mark in marks if mark.number is not None]
    size = f'width="{across}" height="{high:.1f}" preserveAspectRatio="none"'
    return (
        f'<svg viewBox="{-_RIM} {-_RIM} {across + 2 * _RIM} {high + 2 * _RIM:.0f}" role="img">'
        f'<image href="{embed(picture, side, quality)}" {size}/>'
        f"{''.join(words)}{''.join(boxes)}{''.join(_badges(marks, across, high))}</svg>"
    )


def _word(mark: Mark, across: float, high: float) -> str:
    x, y, width, height = mark.x * across, mark.y * high, mark.width * across, mark.height * high
    look = "gone" if mark.gone else f"word {band(mark.confidence)}"
    struck = f'<path d="M{x:.1f} {y + height / 2:.1f}h{width:.1f}"/>' if mark.gone else ""
    return f'<g class="{look}">{_title(mark)}{_rectangle(x, y, width, height)}{struck}</g>'


def _box(mark: Mark, across: float, high: float) -> str:
    # A little larger than its words, whose own boxes would hide it.
    x, y, width, height = mark.x * across - 3, mark.y * high - 3, mark.width * across + 6, mark.height * high + 6
    look = "empty" if mark.empty else band(mark.confidence)
    outline = _rectangle(x, y, width, height)
    return f'<g class="box {look}">{_title(mark)}<g class="halo">{outline}</g>{outline}</g>'


def _badges(marks: Iterable[Mark], across: float, high: float) -> Iterable[str]:
    taken: list[tuple[float, float]] = []
    for mark in marks:
        if mark.number is None:
            continue
        x, y = min(max(mark.x * across - 3, 0), across), min(max(mark.y * high - 3, 0), high)
        while any(abs(x - other) < 2 * _BADGE and abs(y - above) < 2 * _BADGE for other, above in taken):
            y += 2 * _BADGE
        taken.append((x, y))
        look = "empty" if mark.empty else band(mark.confidence)
        yield (
            f'<g class="badge {look}">{_title(mark)}<circle cx="{x:.1f}" cy="{y:.1f}" r="{_BADGE}"/>'
            f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{mark.number}</text></g>'
        )


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{max(height, 1):.1f}"/>'


def _title(mark: Mark) -> str:
    return f"<title>{escape(mark.said)}</title>"
