"""Pieces that the pages share: a page's frame, the list of text boxes, tiles, tables and the key to the colours."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from catalog.records import OcrBox
from ocr.report.overlay import BANDS, Mark, band
from ocr.report.style import STYLE

# No script runs, and nothing is loaded but the pictures that the page itself holds.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, header: str, body: str) -> str:
    """A page of its own that needs nothing but itself. `title` is escaped here, the rest is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<header><h1>{escape(title)}</h1>{header}</header>\n<main>{body}</main></body></html>\n"
    )


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


def tiles(facts: Iterable[tuple[str, str, str]]) -> str:
    """Name, value and a note of each fact, large."""
    each = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in facts
    )
    return f"<dl>{''.join(each)}</dl>"


def table(head: tuple[str, str], counts: Mapping[str, int]) -> str:
    """Counts by name, in their order."""
    if not counts:
        return '<p class="soft">none</p>'
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{n:,}</td></tr>' for name, n in counts.items()
    )
    name, count = map(escape, head)
    above = f'<tr><th scope="col">{name}</th><th scope="col" class="n">{count}</th></tr>'
    return f"<table><thead>{above}</thead><tbody>{rows}</tbody></table>"


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
