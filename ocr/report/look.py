"""The page about one picture: what was read in it is drawn over it, and stands beside it as text.

Everything that was read is escaped; the page runs no script and loads nothing.
"""

from html import escape
from itertools import groupby
from pathlib import Path

from memeloom.configs.outputs import atomic_file, write_text
from memeloom.configs.page import page
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.inspect import Inspection
from memeloom.ocr.report.overlay import Mark, band, draw_over
from memeloom.ocr.report.readings import box_list, box_marks, legend, percent, verdict
from memeloom.ocr.report.style import STYLE

_ACROSS, _SIDE, _QUALITY = 620, 1400, 88


def write_inspection(path: Path, look: Inspection) -> None:
    """Write `look` to `path`: a page, or a picture if the name ends in ``.png``. Raises MemeloomError."""
    if path.suffix.lower() != ".png":
        write_text(path, draw(look))
        return
    from memeloom.ocr.report import sheet

    with atomic_file(path) as stream:
        sheet.draw(look).save(stream, "PNG")


def draw(look: Inspection) -> str:
    """The page, as HTML."""
    picture = look.subject.picture
    marks = [
        *(_mark(word, None) for word in look.kept),
        *(_mark(word, reason) for word, reason in look.removed),
        *box_marks(look.ocr.boxes),
    ]
    height, width = picture.shape[:2]
    facts = f"{look.ocr.engine}, {width} × {height} pixels, read in {look.seconds * 1000:,.0f} ms"
    sure = f"; mean confidence {percent(look.ocr.confidence)}" if look.kept else ""
    return page(
        look.subject.name,
        f'<p class="soft">{escape(facts)}{sure}</p>{verdict(look.ocr.dropped)}',
        f'<div class="look"><figure>{draw_over(picture, marks, _ACROSS, _SIDE, _QUALITY)}{legend(words=True)}</figure>'
        f"<div><h2>{boxes_title(look)}</h2>{box_list(look.ocr.boxes)}{_stated(look.subject.stated)}"
        f"<h2>Lines, as they were found</h2>{_lines(look)}</div></div>",
        style=STYLE,
    )


def boxes_title(look: Inspection) -> str:
    """In which order the text boxes stand."""
    return f"Text boxes, in {'the order of the template' if look.subject.places else 'reading order'}"


def _mark(word: Word, reason: str | None) -> Mark:
    said = f"{word.text} ({percent(word.confidence)}){f': {reason}' if reason else ''}"
    return Mark(word.x, word.y, word.width, word.height, word.confidence, said, gone=reason is not None)


def _stated(boxes: tuple[str, ...]) -> str:
    texts = "".join(f"<li><span></span>{_said(text)}</li>" for text in boxes)
    return f'<h2>What its page says</h2><ol class="boxes">{texts}</ol>' if texts else ""


def _said(text: str) -> str:
    return f'<bdi class="text">{escape(text)}</bdi>' if text else '<span class="soft">no text here</span>'


def _lines(look: Inspection) -> str:
    lines = "".join(f"<li>{_line(found, words)}</li>" for found, words in look.lines())
    return f'<ol class="lines">{lines}</ol>' if lines else '<p class="soft">none</p>'


def _line(found: str, words: list[tuple[Word, str | None]]) -> str:
    """Words that share confidence and fate are one chip; what the engine had read is told where it was changed."""
    chips = []
    for (confidence, reason), group in groupby(words, key=lambda each: (each[0].confidence, each[1])):
        text = escape(" ".join(word.text for word, _ in group))
        look = "gone" if reason else band(confidence)
        said = f"{percent(confidence)}{f' {escape(reason)}' if reason else ''}"
        chips.append(f'<span class="chip {look}"><bdi>{text}</bdi><small>{said}</small></span>')
    changed = " ".join(word.text for word, _ in words) != found
    was = f'<div class="soft">the engine read: <bdi>{escape(found)}</bdi></div>' if changed else ""
    return "".join(chips) + was
