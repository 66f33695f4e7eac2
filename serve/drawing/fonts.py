"""The fonts that are there: the one that memeloom ships, and those that fontconfig knows."""

import hashlib
import re
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from fontTools.ttLib import TTFont
from PIL import ImageFont

from memeloom.configs.errors import MemeloomError

FONT: Final = Path(__file__).parents[1] / "fonts" / "Anton-Regular.ttf"
# Names by which clients of other services ask for fonts, and the families that stand in, the first that is there.
_ALIASES: Final = {
    "thick": (), "impact": (), "": (),
    "thin": ("Titillium Web", "Noto Sans", "DejaVu Sans", "Liberation Sans"),
    "tiny": ("Segoe UI", "Noto Sans", "DejaVu Sans", "Liberation Sans"),
    "arial": ("Arial", "Liberation Sans", "Noto Sans", "DejaVu Sans"),
    "comic": ("Comic Sans MS", "Comic Neue", "Comic Relief", "Kalam"),
    "jp": ("HGMinchoB", "Noto Serif CJK JP", "Noto Sans CJK JP", "IPAexMincho"),
    "he": ("Noto Sans Hebrew", "DejaVu Sans"),
}  # fmt: skip
_LIST: Final = "%{file}|%{index}|%{family[0]}|%{style[0]}|%{weight}|%{slant}|%{color}|%{variable}|%{charset}\n"
_SECONDS: Final = 20
_DIRECTORY: Final = 4096  # bytes at the beginning of a font file that list its tables
_BOLD: Final = 200  # fontconfig's weight
# Families that look well beside others, the best first.
_PREFERRED: Final = ("noto sans", "dejavu sans", "liberation sans", "")


class UnknownFont(MemeloomError):
    """No font has that name."""


@dataclass(frozen=True, eq=False)
class Font:
    """A font file.

    Attributes:
        id: its name in requests, such as ``noto-sans-bold``.
        file_name: of its file.
        alias: another service's name for it; None if it has none.
        path, index: its file, and its place in a collection.
        colour: it holds coloured bitmaps, as emoji fonts do.
        ranges: first and last characters that it has, sorted.
    """

    id: str
    file_name: str
    alias: str | None
    path: Path
    index: int = 0
    colour: bool = False
    family: str = ""
    weight: int = 0
    upright: bool = True
    ranges: tuple[tuple[int, int], ...] = ()

    def has(self, text: str) -> bool:
        """Return whether it has a glyph for each character of `text`; those without a look of their own count."""
        return all(self._has(ord(character)) or character in "\u200c\u200d\ufe0e\ufe0f" for character in text)

    def _has(self, code: int) -> bool:
        place = bisect_right(self.ranges, (code, 0x110000)) - 1
        return place >= 0 and code <= self.ranges[place][1]


@cache
def default_font() -> Font:
    """Return Anton, the font that memeloom ships."""
    with TTFont(FONT) as opened:
        codes = sorted(opened.getBestCmap())
    ranges = tuple((code, code) for code in codes)
    return Font("anton", FONT.name, "impact", FONT, family="Anton", weight=_BOLD, ranges=ranges)


@cache
def fonts() -> Sequence[Font]:
    """Return all fonts: the shipped one first, then the upright ones that ``fc-list`` names, by id."""
    return (default_font(), *sorted(_installed(), key=lambda font: font.id))


@lru_cache(maxsize=256)
def find_font(name: str | None) -> Font:
    """Return the font with the id or alias `name`, case ignored; None: the default.

    Raises:
        UnknownFont: there is none.
    """
    wanted = _slug(name or "")
    if wanted in _ALIASES:
        families = _ALIASES[wanted]
        stand_ins = (font for family in families for font in fonts() if font.family == family)
        return next(stand_ins, default_font())
    for font in fonts():
        if wanted in (font.id, font.alias, _slug(font.family)):
            return font
    near = get_close_matches(wanted, [font.id for font in fonts()], n=1)
    raise UnknownFont(f"no such font: {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))


@lru_cache(maxsize=16384)
def font_for(cluster: str, preferred: Font, *, colour: bool) -> Font | None:
    """Return the font to draw `cluster` in: `preferred` if it can, else the best that is there, or None.

    Args:
        cluster: the characters of one letter as a reader sees it.
        preferred: the font of the text.
        colour: prefer a coloured one, as for emoji.
    """
    if not colour and preferred.has(cluster):
        return preferred
    able = [font for font in fonts() if font.has(cluster)]
    return min(able, key=lambda font: (font.colour != colour, _rank(font)), default=None)


@lru_cache(maxsize=256)
def load_font(font: Font, size: int, *, shaped: bool = False) -> ImageFont.FreeTypeFont:
    """Load `font` at `size` pixels an em; `shaped`: for scripts whose letters join, stack or run from the right.

    Without Raqm in Pillow, shaped text is drawn letter by letter.
    """
    layout = ImageFont.Layout.RAQM if shaped else ImageFont.Layout.BASIC
    return ImageFont.truetype(font.path, size, font.index, layout_engine=layout)


def file_identity(font: Font) -> str:
    """Return what changes with a font's file: its size and its first bytes, which hold checksums of its tables."""
    try:
        with font.path.open("rb") as file:
            return hashlib.sha256(file.read(_DIRECTORY)).hexdigest() + str(font.path.stat().st_size)
    except OSError:
        return ""


def _rank(font: Font) -> tuple[int, int, str]:
    family = font.family.lower()
    liked = next(place for place, prefix in enumerate(_PREFERRED) if family.startswith(prefix))
    special = sum(word in family for word in ("serif", "mono", "ui", "looped", "display", "condensed", "math"))
    return special * 10 + liked, abs(font.weight - _BOLD), font.id


def _installed() -> Sequence[Font]:
    """Return the fonts that fontconfig lists; none without its ``fc-list``."""
    try:
        done = subprocess.run(
            ["fc-list", "--format", _LIST], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found: dict[str, Font] = {}
    for line in done.stdout.splitlines():
        font = _listed(line)
        if font and font.upright and font.path != FONT:
            found.setdefault(font.id, font)
    return tuple(found.values())


def _listed(line: str) -> Font | None:
    file, index, family, style, weight, slant, colour, variable, charset = line.split("|", 8)
    path = Path(file)
    if path.suffix.lower() not in (".ttf", ".otf", ".ttc", ".otc") or variable == "True" or not charset:
        return None
    ranges = []
    for part in charset.split():
        first, _, last = part.partition("-")
        ranges.append((int(first, 16), int(last or first, 16)))
    plain = style.lower() in ("regular", "book", "roman", "normal")
    return Font(
        id=_slug(family if plain else f"{family} {style}"),
        file_name=path.name,
        alias=None,
        path=path,
        index=int(index or 0),
        colour=colour == "True",
        family=family,
        weight=int(float(weight or 80)),
        upright=slant in ("", "0") and "oblique" not in style.lower() and "italic" not in style.lower(),
        ranges=tuple(sorted(ranges)),
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
