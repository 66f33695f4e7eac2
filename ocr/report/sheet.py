"""Draws the inspection of one picture, for use without a browser.

Characters beyond Pillow's own font use the one that fontconfig finds; without one they are empty boxes.
"""

import subprocess
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from memeloom.ocr.inspect import Inspection
from memeloom.ocr.report.inspection_page import boxes_title
from memeloom.ocr.report.marks import band, box_marks
from memeloom.report.overlay import place_badges

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_PAPER, _INK, _SOFT, _BAD, _REMOVED = "#ffffff", "#1b1f24", "#5b6470", "#b3261e", "#69727d"
_COLOURS = {"sure": "#138a63", "fair": "#2563c9", "doubtful": "#b85c00", "poor": "#c2185b", "empty": _REMOVED}
# Pixels: size of the picture, of the readings beside it, margins, gap, column of confidences.
_WIDTH, _HEIGHT, _TEXT_WIDTH, _TEXT_HEIGHT, _MARGIN, _GAP, _NOTES = 660, 1800, 620, 6000, 24, 40, 190
_BADGE = 13


def draw(inspection: Inspection) -> Image.Image:
    """Draw the picture with its marks, and the readings as text beside it."""
    fonts = _Fonts(_all_text(inspection))
    picture, readings = _annotated(inspection, fonts), _readings(inspection, fonts)
    width = picture.width + _GAP + readings.width + 2 * _MARGIN
    sheet = Image.new("RGB", (width, max(picture.height, readings.height) + 2 * _MARGIN), _PAPER)
    sheet.paste(picture, (_MARGIN, _MARGIN))
    sheet.paste(readings, (_MARGIN + picture.width + _GAP, _MARGIN))
    return sheet


class _Fonts:
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
    """Return file and index of a font that has `characters`; None for Pillow's own."""
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


def _all_text(inspection: Inspection) -> str:
    words = (*inspection.found, *inspection.kept, *(word for word, _ in inspection.removed))
    return "".join((inspection.subject.name, *inspection.subject.stated, *(word.text for word in words)))


def _annotated(inspection: Inspection, fonts: _Fonts) -> Image.Image:
    pixels = inspection.subject.picture
    scale = min(_WIDTH / pixels.shape[1], _HEIGHT / pixels.shape[0])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    picture = Image.fromarray(np.ascontiguousarray(small[:, :, ::-1]))
    pen = ImageDraw.Draw(picture)
    for word in inspection.kept:
        pen.rectangle(_corners(word.x, word.y, word.width, word.height, size), outline=_colour(word.confidence))
    for word, _ in inspection.removed:
        left, top, right, bottom = _corners(word.x, word.y, word.width, word.height, size)
        pen.rectangle((left, top, right, bottom), outline=_REMOVED)
        pen.line((left, (top + bottom) / 2, right, (top + bottom) / 2), fill=_BAD, width=2)
    # The numbers of boxes at the edge need room around the picture.
    framed = Image.new("RGB", (size[0] + 2 * _BADGE, size[1] + 2 * _BADGE), _PAPER)
    framed.paste(picture, (_BADGE, _BADGE))
    pen = ImageDraw.Draw(framed)
    marks = box_marks(inspection.ocr.boxes)
    for mark in marks:
        left, top, right, bottom = (side + _BADGE for side in _corners(mark.x, mark.y, mark.width, mark.height, size))
        around = left - 3, top - 3, right + 3, bottom + 3
        pen.rectangle(around, outline=_PAPER, width=5)
        pen.rectangle(
            (around[0] + 1, around[1] + 1, around[2] - 1, around[3] - 1), outline=_COLOURS[mark.look], width=3
        )
    placed = [replace(mark, x=mark.x * size[0] - 3, y=mark.y * size[1] - 3) for mark in marks]
    for x, y, mark in place_badges(placed, *size, _BADGE):
        _badge(pen, x + _BADGE, y + _BADGE, mark.number or 0, _COLOURS[mark.look], fonts)
    return framed


def _badge(pen: ImageDraw.ImageDraw, x: float, y: float, number: int, colour: str, fonts: _Fonts) -> None:
    pen.ellipse((x - _BADGE, y - _BADGE, x + _BADGE, y + _BADGE), fill=colour, outline=_PAPER, width=2)
    pen.text((x, y), str(number), font=fonts.at(16), fill=_PAPER, anchor="mm")


class _Column:
    """A column of text, cropped to its length; text below the largest height is left out."""

    def __init__(self, fonts: _Fonts) -> None:
        self.image = Image.new("RGB", (_TEXT_WIDTH, _TEXT_HEIGHT), _PAPER)
        self.pen = ImageDraw.Draw(self.image)
        self.y = 0
        self._fonts = fonts

    def write(
        self, text: str, size: int, colour: str, *, left: int = 0, right: int = _TEXT_WIDTH, struck: bool = False
    ) -> None:
        font = self._fonts.at(size)
        # Shaping text is slow: skip what will be cropped.
        for line in _wrapped(text, font, right - left) if self.y < _TEXT_HEIGHT else ():
            self.pen.text((left, self.y), line, font=font, fill=colour)
            if struck:
                middle = self.y + round(0.6 * size)
                self.pen.line((left, middle, left + font.getlength(line), middle), fill=_BAD, width=1)
            self.y += round(1.4 * size)

    def beside(self, text: str, size: int, colour: str, left: int) -> None:
        self.pen.text((left, self.y), text, font=self._fonts.at(size), fill=colour)

    def cut(self) -> Image.Image:
        return self.image.crop((0, 0, _TEXT_WIDTH, min(self.y, _TEXT_HEIGHT)))


def _readings(inspection: Inspection, fonts: _Fonts) -> Image.Image:
    column = _Column(fonts)
    height, width = inspection.subject.picture.shape[:2]
    column.write(inspection.subject.name, 26, _INK)
    column.write(f"{inspection.ocr.engine}, {width} x {height} pixels, {inspection.seconds * 1000:,.0f} ms", 16, _SOFT)
    dropped = inspection.ocr.dropped
    column.write(f"dropped: {dropped}" if dropped else "a caption", 18, _COLOURS["doubtful" if dropped else "sure"])
    _heading(column, boxes_title(inspection))
    for mark, box in zip(box_marks(inspection.ocr.boxes), inspection.ocr.boxes, strict=True):
        _badge(column.pen, _BADGE, column.y + _BADGE, mark.number or 0, _COLOURS[mark.look], fonts)
        if box.text:
            column.beside(f"{box.confidence:.1f}", 18, _COLOURS[mark.look], _TEXT_WIDTH - 50)
        column.write(box.text or "no text here", 21, _INK if box.text else _SOFT, left=40, right=_TEXT_WIDTH - 60)
        column.y += 8
    if inspection.subject.stated:
        _heading(column, "Caption of its page")
        for text in inspection.subject.stated:
            column.write(text or "no text here", 21, _INK if text else _SOFT, left=40)
    _heading(column, "Lines, as they were found")
    for _, words in inspection.lines():
        for (confidence, reason), group in groupby(words, key=lambda each: (each[0].confidence, each[1])):
            note = f"{confidence:.1f} {reason or ''}"
            column.beside(note, 15, _BAD if reason else _colour(confidence), _TEXT_WIDTH - _NOTES)
            text = " ".join(word.text for word, _ in group)
            column.write(
                text, 17, _SOFT if reason else _INK, right=_TEXT_WIDTH - _NOTES - 12, struck=reason is not None
            )
            column.y += 4
    return column.cut()


def _heading(column: _Column, text: str) -> None:
    column.y += 20
    column.write(text, 18, _SOFT)
    column.y += 4


def _wrapped(text: str, font: Font, room: float) -> list[str]:
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


def _colour(confidence: float) -> str:
    return _COLOURS[band(confidence)]
