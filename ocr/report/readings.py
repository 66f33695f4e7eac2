"""Pieces that the pages share: the list of text boxes, the verdict and the key to the colours."""

from collections.abc import Iterable, Sequence
from html import escape

from memeloom.catalog.records import OcrBox
from memeloom.ocr.report.overlay import BANDS, Mark, band


def verdict(dropped: str | None) -> str:
    """Whether a reading is a caption, as a pill."""
    if dropped is None:
        return '<p class="how good">a caption</p>'
    return f'<p class="how warn">dropped: {escape(dropped)}</p>'


def box_marks(boxes: Iterable[OcrBox]) -> list[Mark]:
    """Text boxes as marks, numbered in their order."""
    return [
        Mark(
            box.x, box.y, box.width, box.height, box.confidence, number=number, empty=not box.text,
            said=f"{number}: {box.text} ({percent(box.confidence)})" if box.text else f"{number}: no text",
        )
        for number, box in enumerate(boxes, start=1)
    ]  # fmt: skip


def box_list(boxes: Sequence[OcrBox]) -> str:
    """The texts of the boxes, numbered as they are in the picture."""
    if not boxes:
        return '<p class="soft">no text</p>'
    return f'<ol class="boxes">{"".join(_box(number, box) for number, box in enumerate(boxes, start=1))}</ol>'


def legend(*, words: bool) -> str:
    """What the colours mean; `words` tells of words that were taken out, too."""
    keys, above = "", 0
    for name, least in BANDS.items():
        span = f"below {above}" if not least else f"{least} to {above}" if above else f"{least} and more"
        keys, above = f'{keys}<li><i class="{name}"></i>{span}</li>', least
    gone = '<li><i class="gone"></i>taken out</li>' if words else ""
    return f'<ul class="legend"><li>Confidence:</li>{keys}{gone}</ul>'


def percent(confidence: float) -> str:
    """A confidence as it is written."""
    return f"{confidence:.1f}"


def _box(number: int, box: OcrBox) -> str:
    look = band(box.confidence) if box.text else "empty"
    text = f'<bdi class="text">{escape(box.text)}</bdi>' if box.text else '<span class="soft">no text here</span>'
    sure = f'<span class="percent {look}">{percent(box.confidence)}</span>' if box.text else ""
    return f'<li><span class="number {look}"><b>{number}</b></span>{text}{sure}</li>'
