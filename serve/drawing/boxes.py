"""Where the texts of a template go: its own boxes, else a band for each text."""

from collections.abc import Sequence
from typing import Final

from memeloom.catalog.records import Template, TemplateBox

DEFAULT_BOXES: Final = (
    TemplateBox(x=0.02, y=0.01, width=0.96, height=0.25),
    TemplateBox(x=0.02, y=0.74, width=0.96, height=0.25),
)
# Where text begins in its band, as a share of the band: the scene above it stays visible.
_BAND_TOP = 0.45


def text_boxes(template: Template, count: int) -> Sequence[TemplateBox]:
    """Return the text boxes in which to draw `count` texts: the template's own, else one for each text it takes.

    Positions of fewer boxes than texts, as learned from too few memes, do not count.
    """
    if len(template.boxes) >= count:
        return template.boxes
    return default_boxes(max(count, template.box_count or 0))


def default_boxes(count: int) -> tuple[TemplateBox, ...]:
    """Return the text boxes of a template whose own are unknown.

    Args:
        count: number of texts. Up to two: top and bottom; more: one box a band, as templates with several panels have.
    """
    if count <= len(DEFAULT_BOXES):
        return DEFAULT_BOXES
    band = 1 / count
    height = (1 - _BAND_TOP) * band - 0.01 * min(1.0, 10 * band)
    return tuple(TemplateBox(x=0.02, y=(n + _BAND_TOP) * band, width=0.96, height=height) for n in range(count))
