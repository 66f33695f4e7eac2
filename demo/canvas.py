"""Shapes for the demo's scenes, in picture pixels, drawn at twice the size and scaled down."""

from collections.abc import Sequence
from typing import TypeAlias

from PIL import Image, ImageDraw

Colour: TypeAlias = tuple[int, int, int]
Point: TypeAlias = tuple[float, float]

_SCALE = 2


class Canvas:
    """A picture of `width` x `height` pixels to draw on."""

    def __init__(self, width: int, height: int, colour: Colour) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * _SCALE, height * _SCALE), colour)
        self._draw = ImageDraw.Draw(self._image)

    def fade(self, top: Colour, bottom: Colour, start: float = 0, end: float | None = None) -> None:
        """Draw a vertical gradient over the whole width, from row `start` to row `end`."""
        first = round(start * _SCALE)
        rows = round((self.height if end is None else end) * _SCALE) - first
        for row in range(rows):
            part = row / max(1, rows - 1)
            colour = tuple(round(a + (b - a) * part) for a, b in zip(top, bottom, strict=True))
            self._draw.line((0, first + row, self._image.width, first + row), colour)

    def disc(self, x: float, y: float, radius: float, colour: Colour, ratio: float = 1.0) -> None:
        """Draw a filled ellipse round (x, y); `ratio` is its height divided by its width."""
        tall = radius * ratio
        self._draw.ellipse(_scaled((x - radius, y - tall), (x + radius, y + tall)), colour)

    def block(self, left: float, top: float, right: float, bottom: float, colour: Colour, radius: float = 0) -> None:
        """Draw a rectangle; `radius` rounds its corners."""
        self._draw.rounded_rectangle(_scaled((left, top), (right, bottom)), radius * _SCALE, colour)

    def shape(self, colour: Colour, *points: Point) -> None:
        """Draw a filled polygon."""
        self._draw.polygon(_scaled(*points), colour)

    def stroke(self, colour: Colour, width: float, *points: Point) -> None:
        """Draw a line through `points` with round ends."""
        self._draw.line(_scaled(*points), colour, round(width * _SCALE), "curve")
        for x, y in (points[0], points[-1]):
            self.disc(x, y, width / 2, colour)

    def arc(self, x: float, y: float, radius: float, start: float, end: float, colour: Colour, width: float) -> None:
        """Draw part of a circle, in degrees clockwise from three o'clock."""
        box = _scaled((x - radius, y - radius), (x + radius, y + radius))
        self._draw.arc(box, start, end, colour, round(width * _SCALE))

    def eye(self, x: float, y: float, radius: float, look: Point = (0.0, 0.0)) -> None:
        """Draw a round eye whose pupil is shifted by `look` (-1 to 1 in each direction)."""
        self.disc(x, y, radius, (255, 255, 255))
        self.disc(x + look[0] * radius * 0.4, y + look[1] * radius * 0.4, radius * 0.5, (20, 20, 28))

    def finish(self) -> Image.Image:
        """Return the picture at its final size."""
        return self._image.resize((self.width, self.height), Image.Resampling.LANCZOS)


def _scaled(*points: Point) -> Sequence[Point]:
    return [(x * _SCALE, y * _SCALE) for x, y in points]
