"""Draws lines of text as the detector cuts them out of memes.

Outlined or plain, on photos or paper, tilted and cropped a little, with parts of the lines above and below, saved small
and compressed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from memeloom.ocr.engines.rapidocr_small import HEIGHT, STRIDE
from memeloom.ocr.models.networks import Picture
from memeloom.ocr.models.samples import compressed
from memeloom.ocr.small.text import Texts

Colour: TypeAlias = tuple[int, int, int]

_NARROWEST, _WIDEST = 8, 760
_SIZES = (28, 36, 48)
_LONGEST_DRAWN = 1500
# Standard deviation of brightness above which plain letters are hard to read.
_BUSY = 18
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
# Fonts that memes use, and others that look like them; half of the lines have one of these.
USUAL = re.compile(
    r"impact|anton|bebas|oswald|league.?gothic|arial|arimo|liberationsans|heros|nimbussans|freesans", re.IGNORECASE
)
_TESTED = "ABgq0189?!&$@\"'%#xyz;"


@dataclass(frozen=True, slots=True)
class Line:
    """A line to learn from.

    picture: BGR, 32 pixels high. columns: for each column of 4 pixels the index of its character from 1, 0 between
    characters; None if unknown, as on real lines.
    """

    picture: Picture
    text: str
    columns: NDArray[np.int32] | None


class Drawer:
    """Draws random lines.

    fonts: files, half of the lines in those that memes use. backgrounds: BGR pictures that lines are drawn on,
    beside plain colours. characters: those of the network; `texts` has no others.
    """

    def __init__(
        self, texts: Texts, fonts: Sequence[Path], backgrounds: Sequence[Picture], characters: str, chance: Random
    ) -> None:
        self._texts, self._fonts, self._backgrounds, self._chance = texts, fonts, backgrounds, chance
        self._usual = [path for path in fonts if USUAL.search(path.name)] or list(fonts)
        self._index = {character: number for number, character in enumerate(characters, 1)}

    def draw(self) -> Line:
        """Return a line whose text fits into its columns."""
        while True:
            line = self._try()
            if line is not None and fits(line.text, line.picture.shape[1]):
                return line

    def _try(self) -> Line | None:
        chance, size = self._chance, self._chance.choice(_SIZES)
        path = chance.choice(self._usual if chance.random() < 0.5 else self._fonts)
        font, text = load_font(path, size), self._texts.line()
        if _has_capitals_only(path):
            text = text.upper()
        advances = [font.getlength(text[:number]) for number in range(len(text) + 1)]
        if not 4 <= advances[-1] <= _LONGEST_DRAWN:
            return None
        ground = self._background(int(advances[-1]) + 2 * size, sum(font.getmetrics()) + 2 * size)
        ink, edge, stroke = self._look(ground[size:-size, size:-size], size)
        canvas = Image.fromarray(ground)
        pen = ImageDraw.Draw(canvas)
        if chance.random() < 0.08:  # a shadow
            pen.text(
                (size + 2, size + 2), text, BLACK if sum(ink) > 380 else (200, 200, 200), font, stroke_width=stroke
            )
        pen.text((size, size), text, ink, font, stroke_width=stroke, stroke_fill=edge)
        capitals = font.getbbox("HE" if text.isupper() else "Hg")
        pitch = (capitals[3] - capitals[1]) * chance.uniform(1.0, 1.35) + 2 * stroke
        for side in (-1, 1):
            if chance.random() < 0.45:
                other = self._texts.line()
                place = size - chance.randint(0, size), size + side * pitch
                other = other.upper() if text.isupper() else other
                pen.text(place, other, ink, font, stroke_width=stroke, stroke_fill=edge)
        left, top, right, bottom = font.getbbox(text)
        box = size + left, size + top - stroke, size + right, size + bottom + stroke
        return self._cut(np.asarray(canvas, np.uint8), text, box, [size + advance for advance in advances])

    def _cut(
        self, canvas: Picture, text: str, box: tuple[float, float, float, float], edges: Sequence[float]
    ) -> Line | None:
        """Cut the line out as loosely as the detector does. edges: left of each letter, and the right of the last."""
        chance = self._chance
        left, top, right, bottom = box
        height = bottom - top
        top, bottom = (
            top - height * chance.triangular(-0.08, 0.28, 0.08),
            bottom + height * chance.triangular(-0.08, 0.28, 0.08),
        )
        left, right = (
            left - height * chance.triangular(-0.05, 0.5, 0.15),
            right + height * chance.triangular(-0.05, 0.5, 0.15),
        )
        tilt = chance.gauss(0, 0.006 if chance.random() < 0.8 else 0.02) * (right - left)
        tilt = max(-0.12 * height, min(0.12 * height, tilt)) / 2
        width = round(HEIGHT * (right - left) / max(bottom - top, 1) * chance.uniform(0.78, 1.22))
        if not _NARROWEST <= width <= _WIDEST:
            return None
        corners = np.array(
            [[left, top - tilt], [right, top + tilt], [right, bottom + tilt], [left, bottom - tilt]], np.float32
        )
        saved = chance.triangular(9, 48, 26)
        size = max(4, int(width * saved / HEIGHT)), int(saved)
        target = np.array([[0, 0], [size[0], 0], size, [0, size[1]]], np.float32)
        shrunk = (bottom - top) / size[1]
        if shrunk > 1.5:
            canvas = np.asarray(cv2.blur(canvas, (int(shrunk), int(shrunk))), np.uint8)
        transform = cv2.getPerspectiveTransform(corners, target)
        small = cv2.warpPerspective(canvas, transform, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        if chance.random() < 0.75:
            small = compressed(np.asarray(small, np.uint8), chance.randint(25, 92))
        scale = width / (right - left)
        spans = [((a - left) * scale, (b - left) * scale) for a, b in pairwise(edges)]
        return Line(self._worn(_enlarged(small, width)), text, self._columns(text, spans, width))

    def _columns(self, text: str, spans: Sequence[tuple[float, float]], width: int) -> NDArray[np.int32]:
        """Label the columns in the middle two fifths of each character, one at least."""
        columns = np.zeros(width // STRIDE, np.int32)
        for character, (start, end) in zip(text, spans, strict=True):
            middle, reach = (start + end) / 2 / STRIDE - 0.5, max((end - start) / STRIDE * 0.2, 0.01)
            first, last = int(np.ceil(middle - reach)), int(np.floor(middle + reach))
            if last < first:
                first = last = round(middle)
            columns[max(first, 0) : max(last + 1, 0)] = self._index[character]
        return columns

    def _worn(self, picture: Picture) -> Picture:
        kind = self._chance.random()
        if kind < 0.1:
            noise = np.random.default_rng(self._chance.getrandbits(32)).normal(
                0, self._chance.uniform(2, 14), picture.shape
            )
            picture = np.clip(picture + noise, 0, 255).astype(np.uint8)
        elif kind < 0.16:
            picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), self._chance.uniform(0.4, 0.9)), np.uint8)
        return picture if self._chance.random() < 0.9 else np.ascontiguousarray(picture[:, :, ::-1])

    def _background(self, width: int, height: int) -> Picture:
        chance, kind = self._chance, self._chance.random()
        if kind < 0.4 or not self._backgrounds:
            shade = chance.choice((WHITE, WHITE, WHITE, (250,) * 3, (245,) * 3, BLACK, BLACK, (10,) * 3))
            return np.full((height, width, 3), shade if chance.random() < 0.85 else any_colour(chance), np.uint8)
        if kind < 0.45:
            corners = np.array([[any_colour(chance) for _ in range(2)] for _ in range(2)], np.uint8)
            return np.asarray(cv2.resize(corners, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)
        picture, zoom = chance.choice(self._backgrounds), chance.uniform(0.5, 2.5)
        wide, tall = min(int(width / zoom) + 1, picture.shape[1]), min(int(height / zoom) + 1, picture.shape[0])
        x, y = chance.randint(0, picture.shape[1] - wide), chance.randint(0, picture.shape[0] - tall)
        part = picture[y : y + tall, x : x + wide]
        return np.asarray(cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)

    def _look(self, ground: Picture, size: int) -> tuple[Colour, Colour, int]:
        """Choose ink, edge and its width so that the letters stand out."""
        chance, light, busy = self._chance, float(ground.mean()), ground.std() > _BUSY
        against = WHITE if light < 125 else BLACK
        if not busy and chance.random() >= 0.35:
            shade = chance.randint(0, 40) if light > 127 else chance.randint(225, 255)
            ink = (shade, shade, shade) if chance.random() < 0.7 else any_colour(chance)
            plain = abs(0.114 * ink[0] + 0.587 * ink[1] + 0.299 * ink[2] - light) > 70
            return ink if plain else against, BLACK, 0
        if busy and chance.random() < 0.2:  # plain letters on a photo
            return against, BLACK if against == WHITE else WHITE, int(abs(light - against[0]) < 70)
        stroke = chance.choice((1, 1, 2, 2, 3, 4) if size > 30 else (1, 1, 2))
        kind = chance.random()
        if kind < 0.75:
            return WHITE, BLACK, stroke
        ink = BLACK if kind < 0.85 else any_colour(chance)
        return ink, BLACK if sum(ink) > 330 else WHITE, stroke


def any_colour(chance: Random) -> Colour:
    """Return a random colour."""
    return chance.randint(0, 255), chance.randint(0, 255), chance.randint(0, 255)


def vary(line: Picture, text: str, chance: Random) -> Line | None:
    """Return a real line, 48 pixels high or so, cut and coloured a little differently; None if it is too long."""
    height, width = line.shape[:2]
    wide = round(width * HEIGHT / height * chance.uniform(0.85, 1.18))
    if not _NARROWEST <= wide <= _WIDEST or not fits(text, wide):
        return None
    up, down = height * chance.uniform(-0.07, 0.07), height * (1 + chance.uniform(-0.07, 0.07))
    left, right = -height * chance.uniform(0, 0.12), width + height * chance.uniform(-0.02, 0.12)
    corners = np.array([[left, up], [right, up], [right, down], [left, down]], np.float32)
    target = np.array([[0, 0], [wide, 0], [wide, HEIGHT], [0, HEIGHT]], np.float32) * 1.5
    cut = cv2.warpPerspective(
        line, cv2.getPerspectiveTransform(corners, target), (wide * 3 // 2, HEIGHT * 3 // 2),
        flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    picture = cv2.resize(cut, (wide, HEIGHT), interpolation=cv2.INTER_AREA).astype(np.float32)
    if chance.random() < 0.5:
        picture = (picture - 128) * chance.uniform(0.7, 1.2) + 128 + chance.uniform(-25, 25)
    if chance.random() < 0.12:
        picture = 255 - picture
    whole = np.clip(picture, 0, 255).astype(np.uint8)
    return Line(compressed(whole, chance.randint(40, 90)) if chance.random() < 0.3 else whole, text, None)


def fits(text: str, width: int) -> bool:
    """Return True if the output for `width` pixels has room for `text`: a column each, and one between equal ones."""
    return width // STRIDE >= len(text) + sum(one == other for one, other in pairwise(text))


def find_fonts(folder: Path) -> list[Path]:
    """Return the fonts below `folder` that have all letters and signs, one file of each name."""
    files = {path.name: path for ending in ("ttf", "otf") for path in sorted(folder.rglob(f"*.{ending}"))}
    return [path for _, path in sorted(files.items()) if _is_complete(path)]


def _is_complete(path: Path) -> bool:
    try:
        font = ImageFont.truetype(path, 40)
        shapes = {bytes(font.getmask(letter)) for letter in _TESTED}
        return len(shapes) == len(_TESTED) and bytes(font.getmask("\ue123")) not in shapes
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=4096)
def load_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """Return a font of `size` pixels, remembered."""
    return ImageFont.truetype(path, size)


@lru_cache(maxsize=4096)
def _has_capitals_only(path: Path) -> bool:
    font = load_font(path, 40)
    return bytes(font.getmask("a")) == bytes(font.getmask("A"))


def _enlarged(picture: NDArray[np.uint8] | cv2.typing.MatLike, width: int) -> Picture:
    """Scale as reading does: to 48 pixels of height, then to 32."""
    large = cv2.resize(picture, (int(width * 1.5), HEIGHT * 3 // 2), interpolation=cv2.INTER_CUBIC)
    return np.asarray(cv2.resize(large, (width, HEIGHT), interpolation=cv2.INTER_AREA), np.uint8)
