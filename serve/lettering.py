"""The meme font: letters are measured once, drawn once per size, then pasted: much faster than outlined text."""

import unicodedata
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONT = Path(__file__).with_name("fonts") / "Anton-Regular.ttf"
LINE = 1.08  # from baseline to baseline, in font sizes

_REFERENCE = 256  # letters are measured at this size and scaled


@lru_cache(maxsize=64)
def load_font(size: int) -> ImageFont.FreeTypeFont:
    """Load the meme font at `size` pixels an em; the basic layout draws the same with and without Raqm."""
    return ImageFont.truetype(FONT, size, layout_engine=ImageFont.Layout.BASIC)


def drawable(text: str) -> str:
    """Return `text`, composed (NFC), without the characters that the font lacks."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(c for c in composed if c.isspace() or _has_glyph(c))


def ems(text: str) -> float:
    """Return the width of `text` in font sizes, without its outline."""
    return sum(map(_advance, text))


def reach(text: str, size: int) -> tuple[int, int]:
    """Return the pixels of `text` above and below its baseline, without its outline."""
    extents = [_extent(character, size) for character in text] or [(0, 0)]
    return max(up for up, _ in extents), max(down for _, down in extents)


def outline(size: int) -> int:
    """Return the width of the black outline around letters of `size` pixels."""
    return max(1, round(size / 16))


def paste_lines(canvas: Image.Image, lines: list[tuple[float, float, str]], size: int) -> None:
    """Draw `lines` (x of the left end, y of the baseline, text) in white, over all their black outlines."""
    placed = []
    for left, baseline, text in lines:
        x = left
        for character in text:
            if not character.isspace():
                placed.append((round(x), round(baseline), glyph(character, size)))
            x += _advance(character) * size
    for layer, colour in ((0, (0, 0, 0)), (1, (255, 255, 255))):
        for x, y, (dx, dy, *masks) in placed:
            canvas.paste(colour, (x + dx, y + dy), masks[layer])


@lru_cache(maxsize=8192)
def glyph(character: str, size: int) -> tuple[int, int, Image.Image, Image.Image]:
    """Return (dx, dy, mask of letter and outline, mask of the letter); dx and dy are relative to the baseline's pen."""
    width = outline(size)
    font = load_font(size)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(character, anchor="ls", stroke_width=width))
    masks = []
    for stroke in (width, 0):
        mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
        ImageDraw.Draw(mask).text((-left, -top), character, 255, font, "ls", stroke_width=stroke)
        masks.append(mask)
    return left, top, masks[0], masks[1]


@lru_cache(maxsize=8192)
def _advance(character: str) -> float:
    return load_font(_REFERENCE).getlength(character) / _REFERENCE


@lru_cache(maxsize=8192)
def _extent(character: str, size: int) -> tuple[int, int]:
    """Return the pixels above and below the baseline; hinting makes small letters up to two pixels taller."""
    _, top, _, bottom = load_font(size).getbbox(character, anchor="ls")
    return max(0, -round(top)), max(0, round(bottom))


@lru_cache(maxsize=8192)
def _has_glyph(character: str) -> bool:
    """Return False if the font draws `character` as its box for missing glyphs."""
    font = load_font(_REFERENCE)
    mask, missing = font.getmask(character), font.getmask("\uffff")
    return mask.size[0] > 0 and (mask.size != missing.size or bytes(mask) != bytes(missing))
