"""Text in the style of memes: fonts of this machine; outlined, plain or coloured; wrapped into a box."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from memeloom.catalog.records import TemplateBox
from memeloom.serve.drawing.fonts import FONT as ANTON

# Kinds of letters and font families: substitutes of Impact, Arial, Times and Comic Sans.
_FAMILIES = {
    "condensed": ("Impact", "Anton", "Bebas Neue", "Oswald", "League Gothic"),
    "sans": ("Arial", "Liberation Sans", "DejaVu Sans", "Lato", "Roboto", "Open Sans"),
    "serif": ("Times New Roman", "Liberation Serif", "DejaVu Serif"),
    "comic": ("Comic Sans MS", "Comic Neue", "Tomson Talks"),
}
_STYLES = ("Bold", "Regular", "Book")  # styles of a family that captions use
_SHRINK = 0.93  # ratio of one tried size to the next
_LINE = 1.22  # distance of baselines, in heights of the drawn letters


@dataclass(frozen=True)
class Look:
    """The style of a caption: colours, outline width in font sizes (0: none), and alignment."""

    ink: tuple[int, int, int]
    edge: tuple[int, int, int] = (0, 0, 0)
    outline: float = 0.0
    align: str = "center"


@dataclass(frozen=True)
class Fitted:
    """Lines of text and the font size, in pixels, at which they fill their box."""

    font: Path
    size: int
    lines: tuple[str, ...]


def find_fonts(families: Mapping[str, Sequence[str]] = _FAMILIES) -> dict[str, dict[str, Path]]:
    """Return the fonts of this machine by kind and name (family and style) from fontconfig; of ours, Anton always.

    families: by kind; those for Latin letters by default.

    Raises:
        OSError: fontconfig's program `fc-list` is not installed.
    """
    listing = subprocess.run(
        ["fc-list", "--format", "%{family[0]}|%{style[0]}|%{file}\n"], capture_output=True, text=True, check=True,
        timeout=60,
    ).stdout  # fmt: skip
    files = {tuple(parts[:2]): Path(parts[2]) for line in sorted(listing.splitlines()) if (parts := line.split("|"))}
    found: dict[str, dict[str, Path]] = {kind: {} for kind in families}
    for kind, names in families.items():
        for family in names:
            styles = [style for style in _STYLES if (family, style) in files][:2]
            found[kind] |= {f"{family} {style}": files[family, style] for style in styles}
    if "condensed" in found:
        found["condensed"].setdefault("Anton Regular", ANTON)
    return {kind: fonts for kind, fonts in found.items() if fonts}


def fit(text: str, font: Path, look: Look, room: tuple[int, int], sizes: tuple[float, float]) -> Fitted | None:
    """Return the largest font size (pixels, within `sizes`) at which `text` fits into `room` pixels."""
    least, size = sizes
    while size >= least:
        pixels = round(size)
        edge = 2 * _edge(pixels, look)
        lines = _wrap(text.split(), font, pixels, room[0] - edge)
        if lines and height(fitted := Fitted(font, pixels, tuple(lines)), look) <= room[1]:
            return fitted
        size *= _SHRINK
    return None


def height(fitted: Fitted, look: Look) -> int:
    """Return the height in pixels, outlines included."""
    up, down = _reach(fitted)
    return round(up + down + (len(fitted.lines) - 1) * _pitch(fitted, look) + 2 * _edge(fitted.size, look))


def draw(canvas: Image.Image, box: TemplateBox, fitted: Fitted, look: Look) -> None:
    """Draw the lines into `box` of `canvas` with its rotation, aligned to the edge of the picture if the box is."""
    wide, tall = max(1, round(box.width * canvas.width)), max(1, round(box.height * canvas.height))
    font, edge = _load(fitted.font, fitted.size), _edge(fitted.size, look)
    gravity = 0.0 if box.y < 0.03 else 1.0 if box.y + box.height > 0.95 else 0.5
    baseline = edge + _reach(fitted)[0] + (tall - height(fitted, look)) * gravity
    layer = Image.new("RGBA", (wide, tall), (*(look.edge if edge else look.ink), 0))
    pen = ImageDraw.Draw(layer)
    x, anchor = (wide / 2, "ms") if look.align == "center" else (edge, "ls")
    for number, line in enumerate(fitted.lines):
        place = x, baseline + number * _pitch(fitted, look)
        pen.text(place, line, look.ink, font, anchor, stroke_width=edge, stroke_fill=look.edge)
    if box.angle % 360:
        layer = layer.rotate(-box.angle, Image.Resampling.BICUBIC, expand=True)
    middle = round((box.x + box.width / 2) * canvas.width), round((box.y + box.height / 2) * canvas.height)
    canvas.paste(layer, (middle[0] - layer.width // 2, middle[1] - layer.height // 2), layer)


def _wrap(words: Sequence[str], font: Path, size: int, room: float) -> list[str] | None:
    """Wrap greedily to lines of at most `room` pixels; None if a word is wider."""
    face = _load(font, size)
    if not words or max(face.getlength(word) for word in words) > room:
        return None
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} {word}"
        if face.getlength(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _edge(size: int, look: Look) -> int:
    return max(1, round(look.outline * size)) if look.outline else 0


def _reach(fitted: Fitted) -> tuple[float, float]:
    """Return ascent and descent of the letters in pixels, without outline."""
    _, top, _, bottom = _load(fitted.font, fitted.size).getbbox(" ".join(fitted.lines), anchor="ls")
    return max(0.0, -top), max(0.0, bottom)


def _pitch(fitted: Fitted, look: Look) -> float:
    return sum(_reach(fitted)) * _LINE + _edge(fitted.size, look)


@lru_cache(maxsize=512)
def _load(font: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(font, size)
