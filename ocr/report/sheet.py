"""The page about one picture as a picture itself: for a terminal, a chat or a paper, where no browser is.

Pillow's own font knows ASCII and little more; for other characters the font is used that the machine's fontconfig
finds best. Where it has none, they are drawn as empty boxes.
"""

import subprocess
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from memeloom.ocr.inspect import Inspection
from memeloom.ocr.report.look import boxes_title
from memeloom.ocr.report.overlay import Mark, band
from memeloom.ocr.report.readings import box_marks, percent

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_PAPER, _INK, _SOFT, _BAD, _GONE = "#ffffff", "#1b1f24", "#5b6470", "#b3261e", "#69727d"
_COLOURS = {"sure": "#138a63", "fair": "#2563c9", "doubtful": "#b85c00", "poor": "#c2185b"}
# Pixels: the picture, the readings beside it, the rim and what is between them, the column of confidences.
_ACROSS, _HIGHEST, _WIDE, _LONGEST, _RIM, _BETWEEN, _SURE = 660, 1800, 620, 6000, 24, 40, 190
_BADGE = 13


def draw(look: Inspection) -> Image.Image:
    """The picture with the marks over it, and beside it the readings as text."""
    fonts = _Fonts(_all_text(look))
    picture, readings = _annotated(look, fonts), _readings(look, fonts)
    width = picture.width + _BETWEEN + readings.width + 2 * _RIM
    sheet = Image.new("RGB", (width, max(picture.height, readings.height) + 2 * _RIM), _PAPER)
    sheet.paste(picture, (_RIM, _RIM))
    sheet.paste(readings, (_RIM + picture.width + _BETWEEN, _RIM))
    return sheet


class _Fonts:
    """One face for all that is written, in any size."""

    def __init__(self, text: str) -> None:
        self._face = _find_face("".join(sorted({c for c in text if not c.isascii() and c.isprintable()})))

    def at(self, size: int) -> Font:
        if self._face:
            try:
                return ImageFont.truetype(self._face[0], size, index=self._face[1])
            except OSError:
                self._face = None  # a bitmap font, perhaps
        return ImageFont.load_default(size)


@lru_cache(maxsize=8)
def _find_face(characters: str) -> tuple[str, int] | None:
    """File and index of the font that suits `characters` best; None if Pillow's own does, or nobody knows."""
    if not characters:
        return None
    pattern = f"sans:charset={' '.join(f'{ord(character):x}' for character in characters[:200])}"
    try:
        asked = subprocess.run(
            ["fc-match", "--format=%{index} %{file}", pattern], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    index, _, file = asked.stdout.partition(" ")
    return (file, int(index) & 0xFFFF) if file and index.isdigit() else None


def _all_text(look: Inspection) -> str:
    words = (*look.found, *look.kept, *(word for word, _ in look.removed))
    return "".join((look.subject.name, *look.subject.stated, *(word.text for word in words)))


def _annotated(look: Inspection, fonts: _Fonts) -> Image.Image:
    pixels = look.subject.picture
    scale = min(_ACROSS / pixels.shape[1], _HIGHEST / pixels.shape[0])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    picture = Image.fromarray(np.ascontiguousarray(small[:, :, ::-1]))
    pen = ImageDraw.Draw(picture)
    for word in look.kept:
        pen.rectangle(_corners(word.x, word.y, word.width, word.height, size), outline=_colour(word.confidence))
    for word, _ in look.removed:
        left, top, right, bottom = _corners(word.x, word.y, word.width, word.height, size)
        pen.rectangle((left, top, right, bottom), outline=_GONE)
        pen.line((left, (top + bottom) / 2, right, (top + bottom) / 2), fill=_BAD, width=2)
    # The numbers of boxes at the rim need room around the picture.
    framed = Image.new("RGB", (size[0] + 2 * _BADGE, size[1] + 2 * _BADGE), _PAPER)
    framed.paste(picture, (_BADGE, _BADGE))
    pen = ImageDraw.Draw(framed)
    marks = box_marks(look.ocr.boxes)
    for mark in marks:
        left, top, right, bottom = (side + _BADGE for side in _corners(mark.x, mark.y, mark.width, mark.height, size))
        around = left - 3, top - 3, right + 3, bottom + 3
        pen.rectangle(around, outline=_PAPER, width=5)
        pen.rectangle((around[0] + 1, around[1] + 1, around[2] - 1, around[3] - 1), outline=_mark_colour(mark), width=3)
    for x, y, mark in _badges(marks, size):
        _badge(pen, x, y, mark.number or 0, _mark_colour(mark), fonts)
    return framed


def _badges(marks: list[Mark], size: tuple[int, int]) -> Iterator[tuple[float, float, Mark]]:
    taken: list[tuple[float, float]] = []
    for mark in marks:
        x = _BADGE + min(max(mark.x * size[0] - 3, 0), size[0])
        y = _BADGE + min(max(mark.y * size[1] - 3, 0), size[1])
        while any(abs(x - other) < 2 * _BADGE and abs(y - above) < 2 * _BADGE for other, above in taken):
            y += 2 * _BADGE
        taken.append((x, y))
        yield x, y, mark


def _badge(pen: ImageDraw.ImageDraw, x: float, y: float, number: int, colour: str, fonts: _Fonts) -> None:
    pen.ellipse((x - _BADGE, y - _BADGE, x + _BADGE, y + _BADGE), fill=colour, outline=_PAPER, width=2)
    pen.text((x, y), str(number), font=fonts.at(16), fill=_PAPER, anchor="mm")


class _Column:
    """Text under text on a sheet that is cut where it ends; what would stand below its longest is left out."""

    def __init__(self, fonts: _Fonts) -> None:
        self.image = Image.new("RGB", (_WIDE, _LONGEST), _PAPER)
        self.pen = ImageDraw.Draw(self.image)
        self.y = 0
        self._fonts = fonts

    def write(
        self, text: str, size: int, colour: str, *, left: int = 0, right: int = _WIDE, struck: bool = False
    ) -> None:
        font = self._fonts.at(size)
        # Shaping text takes long, and what stands below the longest sheet is cut.
        for line in _wrapped(text, font, right - left) if self.y < _LONGEST else ():
            self.pen.text((left, self.y), line, font=font, fill=colour)
            if struck:
                middle = self.y + round(0.6 * size)
                self.pen.line((left, middle, left + font.getlength(line), middle), fill=_BAD, width=1)
            self.y += round(1.4 * size)

    def beside(self, text: str, size: int, colour: str, left: int) -> None:
        """Text in the row that is written next."""
        self.pen.text((left, self.y), text, font=self._fonts.at(size), fill=colour)

    def cut(self) -> Image.Image:
        return self.image.crop((0, 0, _WIDE, min(self.y, _LONGEST)))


def _readings(look: Inspection, fonts: _Fonts) -> Image.Image:
    column = _Column(fonts)
    height, width = look.subject.picture.shape[:2]
    column.write(look.subject.name, 26, _INK)
    column.write(f"{look.ocr.engine}, {width} x {height} pixels, {look.seconds * 1000:,.0f} ms", 16, _SOFT)
    dropped = look.ocr.dropped
    column.write(f"dropped: {dropped}" if dropped else "a caption", 18, _COLOURS["doubtful" if dropped else "sure"])
    _heading(column, boxes_title(look))
    for mark, box in zip(box_marks(look.ocr.boxes), look.ocr.boxes, strict=True):
        _badge(column.pen, _BADGE, column.y + _BADGE, mark.number or 0, _mark_colour(mark), fonts)
        if box.text:
            column.beside(percent(box.confidence), 18, _mark_colour(mark), _WIDE - 50)
        column.write(box.text or "no text here", 21, _INK if box.text else _SOFT, left=40, right=_WIDE - 60)
        column.y += 8
    if look.subject.stated:
        _heading(column, "What its page says")
        for text in look.subject.stated:
            column.write(text or "no text here", 21, _INK if text else _SOFT, left=40)
    _heading(column, "Lines, as they were found")
    for _, words in look.lines():
        for (confidence, reason), group in groupby(words, key=lambda each: (each[0].confidence, each[1])):
            sure = f"{percent(confidence)} {reason or ''}"
            column.beside(sure, 15, _BAD if reason else _colour(confidence), _WIDE - _SURE)
            text = " ".join(word.text for word, _ in group)
            column.write(text, 17, _SOFT if reason else _INK, right=_WIDE - _SURE - 12, struck=reason is not None)
            column.y += 4
    return column.cut()


def _heading(column: _Column, text: str) -> None:
    column.y += 20
    column.write(text, 18, _SOFT)
    column.y += 4


def _wrapped(text: str, font: Font, room: float) -> list[str]:
    """Lines of `text` no wider than `room`; a word that is wider is cut."""
    lines = [""]
    for whole in text.split():
        word = whole
        if font.getlength(f"{lines[-1]} {word}".strip()) > room:
            lines.append("")
        while len(word) > 1 and font.getlength(word) > room:
            end = max(1, bisect_right(range(1, len(word)), room, key=lambda end: font.getlength(word[:end])))
            lines[-1] = word[:end]
            lines.append("")
            word = word[end:]
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]


def _corners(
    x: float, y: float, width: float, height: float, size: tuple[int, int]
) -> tuple[float, float, float, float]:
    left, top = x * size[0], y * size[1]
    return left, top, left + max(width * size[0], 1), top + max(height * size[1], 1)


def _mark_colour(mark: Mark) -> str:
    return _GONE if mark.empty else _colour(mark.confidence)


def _colour(confidence: float) -> str:
    return _COLOURS[band(confidence)]
