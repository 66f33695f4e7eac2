"""The page about one inspected picture: the reading drawn over it, and beside it as text."""

from itertools import groupby
from pathlib import Path

from memeloom.configs.outputs import atomic_file, write_text
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.inspect import Inspection
from memeloom.ocr.report.marks import band, box_marks, legend, word_mark
from memeloom.report.format import duration
from memeloom.report.overlay import overlay
from memeloom.report.pages import render

_WIDTH, _SIDE, _QUALITY = 620, 1400, 88


def write_inspection(path: Path, inspection: Inspection) -> None:
    """Write `inspection` to `path`: a page, or a picture if the name ends in ``.png``. Raises MemeloomError."""
    if path.suffix.lower() != ".png":
        write_text(path, draw(inspection))
        return
    from memeloom.ocr.report import sheet

    with atomic_file(path) as stream:
        sheet.draw(inspection).save(stream, "PNG")


def draw(inspection: Inspection) -> str:
    """Return the page as HTML."""
    picture, ocr = inspection.subject.picture, inspection.ocr
    words = [*((word, None) for word in inspection.kept), *inspection.removed]
    marks = [*(word_mark(word, reason) for word, reason in words), *box_marks(ocr.boxes)]
    height, width = picture.shape[:2]
    facts = f"{ocr.engine}, {width} × {height} pixels, read in {duration(inspection.seconds)}"
    return render(
        "inspection.html",
        title=inspection.subject.name,
        facts=f"{facts}; mean confidence {ocr.confidence:.1f}" if inspection.kept else facts,
        dropped=ocr.dropped,
        drawn=overlay(picture, marks, width=_WIDTH, side=_SIDE, quality=_QUALITY),
        legend=[*legend(), ("removed", "removed")],
        boxes_title=boxes_title(inspection),
        boxes=[(box, band(box.confidence) if box.text else "empty") for box in ocr.boxes],
        stated=inspection.subject.stated,
        lines=[_line(found, words) for found, words in inspection.lines()],
    )


def boxes_title(inspection: Inspection) -> str:
    """Return the heading of the text boxes, which says their order."""
    return f"Text boxes, in {'the order of the template' if inspection.subject.places else 'reading order'}"


def _line(found: str, words: list[tuple[Word, str | None]]) -> tuple[list[tuple[str, str, str]], str]:
    """Return a line's words as chips (class, text, note), and the engine's text where cleaning changed it."""
    chips = []
    for (confidence, reason), group in groupby(words, key=lambda each: (each[0].confidence, each[1])):
        text = " ".join(word.text for word, _ in group)
        chips.append(("removed" if reason else band(confidence), text, f"{confidence:.1f} {reason or ''}".rstrip()))
    return chips, found if " ".join(word.text for word, _ in words) != found else ""
