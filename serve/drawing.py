"""Captions drawn on pictures in the meme style: white letters with a black outline, fitted into text boxes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from memeloom.catalog.records import TemplateBox
from memeloom.serve.lettering import LINE, drawable, ems, outline, paste_lines, reach

DEFAULT_BOXES = (
    TemplateBox(x=0.02, y=0.01, width=0.96, height=0.25),
    TemplateBox(x=0.02, y=0.74, width=0.96, height=0.25),
)

_SIZES = (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 27, 30, 33, 36, 40, 44, 48, 53, 58, 64,
          70, 77, 85, 94, 103, 113, 124, 136, 150, 165, 181, 199)  # fmt: skip
_LARGEST = 0.13  # largest font size, as a share of the picture's mean side
# A word is broken only if it would otherwise be smaller than this share of the largest size,
_READABLE = 0.2
_BREAK_GAIN = 2.0  # and if breaking makes all letters at least this much larger

Paragraphs: TypeAlias = Sequence[Sequence[str]]
Fitted: TypeAlias = tuple[int, list[str]]


def draw_caption(picture: Image.Image, boxes: Sequence[TemplateBox], texts: Sequence[str]) -> Image.Image:
    """Draw one text in each box onto a copy of `picture`.

    Each text gets the largest letters that fit its box, wrapped and centred; a box at the upper or lower edge is
    aligned to it. Case is kept, characters without a glyph (emoji) are left out, and text that does not fit is cut.

    Args:
        picture: of any mode and size; transparency becomes white.
        boxes: fractions of the picture, angles in degrees clockwise, as in CSS. Empty: top and bottom.
        texts: one for each box; texts beyond the last box are appended to its text.

    Returns:
        A new RGB image of the same size.
    """
    canvas = flatten(picture)
    boxes = boxes or DEFAULT_BOXES
    texts = list(texts)
    if len(texts) > len(boxes):
        texts[len(boxes) - 1 :] = [" ".join(texts[len(boxes) - 1 :])]
    largest = _LARGEST * (canvas.width * canvas.height) ** 0.5
    for box, text in zip(boxes, texts, strict=False):
        _draw_text(canvas, box, text, largest)
    return canvas


def draw_meme(
    picture: Image.Image | Path | str, texts: Sequence[str], boxes: Sequence[TemplateBox] = ()
) -> Image.Image:
    """Draw a meme: `texts` in capitals on a copy of `picture`.

    Args:
        picture: a Pillow image, or the path of one.
        texts: one text a box.
        boxes: the template's text boxes; none: top and bottom.

    Returns:
        A new RGB image of the same size.
    """
    if not isinstance(picture, Image.Image):
        with Image.open(picture) as opened:
            picture = flatten(opened)
    return draw_caption(picture, boxes, [text.upper() for text in texts])


def flatten(picture: Image.Image) -> Image.Image:
    """Return a copy of `picture` as RGB, transparency on white."""
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return picture.convert("RGB") if picture.mode != "RGB" else picture.copy()


def _draw_text(canvas: Image.Image, box: TemplateBox, text: str, largest: float) -> None:
    paragraphs = [words for line in drawable(text).splitlines() if (words := line.split())]
    left, top = round(box.x * canvas.width), round(box.y * canvas.height)
    width, height = round(box.width * canvas.width), round(box.height * canvas.height)
    fitted = fit(paragraphs, width, height, largest)
    if fitted is None:
        return
    size, lines = fitted
    if box.angle % 360:
        layer = Image.new("RGBA", (width, height))
        _draw_lines(layer, lines, size, (0, 0, width, height), 0.5)
        layer = layer.rotate(-box.angle, Image.Resampling.BICUBIC, expand=True)
        corner = (left + (width - layer.width) // 2, top + (height - layer.height) // 2)
        canvas.paste(layer, corner, layer)
        return
    gravity = 0.0 if box.y < 0.03 else 1.0 if box.y + box.height > 0.95 else 0.5
    _draw_lines(canvas, lines, size, (left, top, width, height), gravity)


def _draw_lines(
    canvas: Image.Image, lines: Sequence[str], size: int, area: tuple[int, int, int, int], gravity: float
) -> None:
    """Draw `lines` into `area` (left, top, width, height); `gravity` 0 is its top, 1 its bottom."""
    left, top, width, height = area
    first = top + outline(size) + reach(lines[0], size)[0] + (height - _height(lines, size)) * gravity
    placed = [(left + (width - ems(line) * size) / 2, first + n * LINE * size, line) for n, line in enumerate(lines)]
    paste_lines(canvas, placed, size)


def fit(paragraphs: Paragraphs, width: int, height: int, largest: float) -> Fitted | None:
    """Return the largest font size at which the words fit `width` x `height` pixels, and their lines at that size.

    None if there is nothing to draw, or no room for a single line.
    """
    if not paragraphs:
        return None
    whole = _search(paragraphs, width, height, largest, broken=False)
    broken = _search(paragraphs, width, height, largest, broken=True)
    if whole and broken and (whole[0] >= _READABLE * largest or broken[0] < _BREAK_GAIN * whole[0]):
        return whole
    return broken or _cut(paragraphs, width, height)


def _search(paragraphs: Paragraphs, width: int, height: int, largest: float, *, broken: bool) -> Fitted | None:
    low, high, best = 0, len(_SIZES) - 1, None
    while low <= high:
        middle = (low + high) // 2
        size = _SIZES[middle]
        lines = _wrap(paragraphs, _room(width, size), broken=broken) if size <= max(largest, _SIZES[0]) else None
        if lines and _height(lines, size) <= height:
            low, best = middle + 1, (size, lines)
        else:
            high = middle - 1
    return best


def _cut(paragraphs: Paragraphs, width: int, height: int) -> Fitted | None:
    """Fit as many lines of the smallest letters as possible; None if not even one fits."""
    size = _SIZES[0]
    lines = _wrap(paragraphs, _room(width, size), broken=True) or []
    while lines and _height(lines, size) > height:
        lines.pop()
    return (size, lines) if lines else None


def _wrap(paragraphs: Paragraphs, room: float, *, broken: bool) -> list[str] | None:
    """Wrap to lines of `room` ems greedily; None if a wider word may not, or cannot, be broken."""
    lines = []
    space = ems(" ")
    for words in paragraphs:
        line, used = "", 0.0
        for word in words:
            need = ems(word)
            if line and used + space + need <= room:
                line, used = f"{line} {word}", used + space + need
                continue
            if line:
                lines.append(line)
            pieces = _pieces(word, room) if need > room else [word]
            if not pieces or (len(pieces) > 1 and not broken):
                return None
            lines += pieces[:-1]
            line, used = pieces[-1], ems(pieces[-1])
        lines.append(line)
    return lines


def _pieces(word: str, room: float) -> list[str]:
    """Cut `word` into pieces of at most `room` ems; empty if a single letter is wider."""
    pieces, used = [""], 0.0
    for character in word:
        need = ems(character)
        if need > room:
            return []
        if used + need > room:
            pieces.append("")
            used = 0.0
        pieces[-1] += character
        used += need
    return pieces


def _room(width: int, size: int) -> float:
    """Return the width between the outlines in ems of `size` pixels; one pixel is for rounding."""
    return (width - 2 * outline(size) - 1) / size


def _height(lines: Sequence[str], size: int) -> float:
    """Return the pixels from the first line's outline to the last one's; one is for rounding."""
    letters = reach(lines[0], size)[0] + reach(lines[-1], size)[1]
    return letters + LINE * size * (len(lines) - 1) + 2 * outline(size) + 1
