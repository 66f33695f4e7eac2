"""Letters as masks: measured once, drawn once a size, then pasted, which is much faster than outlined text."""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from PIL import Image, ImageDraw, features

from memeloom.serve.bounded_cache import BoundedCache
from memeloom.serve.drawing.fonts import Font, default_font, load_font
from memeloom.serve.drawing.runs import Run

LINE: Final = 1.08  # from baseline to baseline, in font sizes

_REFERENCE: Final = 256  # letters are measured at this size and scaled
_USUAL_CAPITAL: Final = 0.72  # height of a capital in font sizes, of most fonts
_EMOJI_HEIGHT: Final = 1.0  # in font sizes of the default font
# Builds of Pillow without it draw letter by letter.
_RAQM: Final = features.check("raqm")
_EMOJI_BITMAP: Final = 109  # pixels an em: the only size of the usual emoji fonts
_KEPT_BYTES: Final = 32 * 2**20  # of drawn letters: a shaped text in large letters alone may take two megabytes
_ENTRY_BYTES: Final = 500  # of a kept letter beside its pixels


class Stamp(NamedTuple):
    """Something drawn, relative to the pen on the baseline. outline, letter: masks; for an emoji, `picture` is set."""

    dx: int
    dy: int
    outline: Image.Image | None
    letter: Image.Image
    picture: Image.Image | None = None


def _bytes_of(drawn: Stamp | Image.Image) -> int:
    images = (drawn,) if isinstance(drawn, Image.Image) else (drawn.outline, drawn.letter, drawn.picture)
    # Pillow keeps pixels of several channels in 32 bits.
    pixels = (each.width * each.height * (1 if each.mode == "L" else 4) for each in images if each)
    return sum(pixels) + _ENTRY_BYTES


_drawn: Final = BoundedCache[Any, Stamp | Image.Image](_KEPT_BYTES, _bytes_of)


def outline_width(size: int) -> int:
    """Return the width in pixels of the outline around letters of `size` pixels."""
    return max(1, round(size / 16))


@lru_cache(maxsize=8192)
def width_of(run: Run, size: int, main: Font) -> float:
    """Return the pixels that a shaped or emoji run takes at `size` beside text in `main`, without outline."""
    if run.kind == "emoji":
        return emoji_stamp(run.text, run.font, size).letter.width + 0.08 * size
    if run.kind == "plain":
        return ems(run.text, run.font) * fallback_size(run, size, main)
    font = load_font(run.font, fallback_size(run, size, main), shaped=True)
    left, _, right, _ = font.getbbox(run.text, anchor="ls", direction=_towards(run))
    return float(max(right, font.getlength(run.text, direction=_towards(run))) - min(0, left))


def ems(text: str, font: Font) -> float:
    """Return the width of plain `text` in font sizes, without its outline."""
    return sum(_advance(character, font) for character in text)


def reach(run: Run, size: int, main: Font) -> tuple[int, int]:
    """Return the pixels of a run above and below its baseline, without its outline."""
    if run.kind == "emoji":
        stamp = emoji_stamp(run.text, run.font, size)
        return -stamp.dy, stamp.letter.height + stamp.dy
    own = fallback_size(run, size, main)
    if run.kind == "shaped":
        _, top, _, bottom = load_font(run.font, own, shaped=True).getbbox(
            run.text, anchor="ls", direction=_towards(run)
        )
        return max(0, -round(top)), max(0, round(bottom))
    extents = [_extent(character, run.font, own) for character in run.text]
    return max(up for up, _ in extents), max(down for _, down in extents)


def fallback_size(run: Run, size: int, main: Font) -> int:
    """Return the size at which a run's letters are as tall as those of `main` at `size`."""
    if run.font is main:
        return size
    if run.kind == "plain" and ord(run.text[0]) >= 0x2E80:  # ideographs fill their em
        return size
    return max(1, round(size * capital(main) / (capital(run.font) if run.font.has("H") else _USUAL_CAPITAL)))


@lru_cache(maxsize=256)
def capital(font: Font) -> float:
    """Return the height of a capital letter in font sizes."""
    _, top, _, bottom = load_font(font, _REFERENCE).getbbox("H", anchor="ls")
    return float(bottom - top) / _REFERENCE


@_drawn.keeps
def letter_stamp(character: str, font: Font, size: int, stroke: int) -> Stamp:
    """Draw one plain letter with an outline of `stroke` pixels."""
    return _stamp(character, font, size, stroke, None, shaped=False)


@_drawn.keeps
def shaped_stamp(run: Run, size: int, stroke: int) -> Stamp:
    """Draw a shaped run as a whole."""
    return _stamp(run.text, run.font, size, stroke, _towards(run), shaped=True)


@_drawn.keeps
def emoji_stamp(cluster: str, font: Font, size: int) -> Stamp:
    """Draw an emoji as tall as the letters of text of `size` pixels with their descenders."""
    bitmap = _emoji(cluster, font)
    height = max(1, round(size * _EMOJI_HEIGHT))
    width = max(1, round(bitmap.width * height / bitmap.height))
    picture = bitmap.resize((width, height), Image.Resampling.LANCZOS)
    drop = round((height - capital(default_font()) * size) / 2)
    return Stamp(round(0.04 * size), drop - height, None, picture.getchannel("A"), picture.convert("RGB"))


@_drawn.keeps
def _emoji(cluster: str, font: Font) -> Image.Image:
    """Return the emoji's own bitmap, RGBA, without empty edges."""
    loaded = load_font(font, _EMOJI_BITMAP, shaped=True)
    left, top, right, bottom = loaded.getbbox(cluster, anchor="ls")
    bitmap = Image.new("RGBA", (max(1, round(right - left)), max(1, round(bottom - top))))
    ImageDraw.Draw(bitmap).text((-left, -top), cluster, "black", loaded, "ls", embedded_color=True)
    return bitmap.crop(bitmap.getbbox() or (0, 0, 1, 1))


def _stamp(text: str, font: Font, size: int, stroke: int, direction: str | None, *, shaped: bool) -> Stamp:
    loaded = load_font(font, size, shaped=shaped)
    box = loaded.getbbox(text, anchor="ls", stroke_width=stroke, direction=direction)
    left, top, right, bottom = (round(edge) for edge in box)
    masks = []
    for width in (stroke, 0) if stroke else (0,):
        mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
        ImageDraw.Draw(mask).text((-left, -top), text, 255, loaded, "ls", stroke_width=width, direction=direction)
        masks.append(mask)
    return Stamp(left, top, masks[0] if stroke else None, masks[-1])


def _towards(run: Run) -> str | None:
    """Return the direction for Pillow, which refuses any without Raqm."""
    if not _RAQM:
        return None
    return "rtl" if run.direction == "right" else "ltr"


@lru_cache(maxsize=8192)
def _advance(character: str, font: Font) -> float:
    return load_font(font, _REFERENCE).getlength(character) / _REFERENCE


@lru_cache(maxsize=8192)
def _extent(character: str, font: Font, size: int) -> tuple[int, int]:
    """Return the pixels above and below the baseline; hinting makes small letters up to two pixels taller."""
    _, top, _, bottom = load_font(font, size).getbbox(character, anchor="ls")
    return max(0, -round(top)), max(0, round(bottom))
