"""A template's picture with its text boxes over it, and how their texts are set."""

from collections.abc import Sequence
from html import escape

from memeloom.catalog.embed import embed
from memeloom.catalog.images import Pixels
from memeloom.catalog.records import TemplateBox, TextStyle

_BADGE = 10


def draw_boxes(picture: Pixels, boxes: Sequence[TemplateBox], *, across: int, quality: int = 72, over: str = "") -> str:
    """`picture` (BGR) with the boxes numbered, as an SVG element that takes the width it is given.

    across: its width in the units of strokes and numbers, and the longest side of the picture within, in pixels.
    over: an address of a picture to lay over it.
    """
    high = across * picture.shape[0] / picture.shape[1]
    size = f'width="{across}" height="{high:.1f}" preserveAspectRatio="none"'
    drawn = "".join(_box(number, box, across, high) for number, box in enumerate(boxes, start=1))
    layer = f'<image href="{over}" {size}/>' if over else ""
    said = f"{len(boxes)} text box{'' if len(boxes) == 1 else 'es'}"
    return (
        f'<svg viewBox="0 0 {across} {high:.1f}" role="img" aria-label="the picture, with {said}">'
        f'<image href="{embed(picture, across, quality)}" {size}/>'
        f"{layer}{drawn}</svg>"
    )


def describe(style: TextStyle) -> str:
    """A style in words, its colours as patches. HTML."""
    outline = f" outlined {_patch(style.outline)}" if style.outline else ""
    capitals = ", capitals" if style.capitals else ""
    return f"letters {100 * style.size:.0f} % high{capitals}, {_patch(style.colour)}{outline}"


def _patch(colour: str) -> str:
    # The record lets nothing but #rrggbb through.
    shown = escape(colour)
    return f'<i class="patch" role="img" aria-label="{shown}" title="{shown}" style="background:{shown}"></i>'


def _box(number: int, box: TemplateBox, across: float, high: float) -> str:
    x, y, width, height = box.x * across, box.y * high, box.width * across, box.height * high
    turn = f' transform="rotate({box.angle:.1f} {x + width / 2:.1f} {y + height / 2:.1f})"' if box.angle % 360 else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{max(height, 1):.1f}"'
    # A box may reach beyond the picture, its number not.
    left = min(max(x, _BADGE + 1), across - _BADGE - 1)
    top = min(max(y, _BADGE + 1), high - _BADGE - 1)
    return (
        f'<g class="box"{turn}><rect class="halo" {place}/><rect {place}/></g>'
        f'<g class="badge"><circle cx="{left:.1f}" cy="{top:.1f}" r="{_BADGE}"/>'
        f'<text x="{left:.1f}" y="{top + 4:.1f}">{number}</text></g>'
    )
