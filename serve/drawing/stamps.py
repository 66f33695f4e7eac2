"""Laid-out text turned into masks to paste on a picture: once for all frames of an animation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image

from memeloom.catalog.records import Align
from memeloom.serve.drawing.fonts import Font
from memeloom.serve.drawing.layout import Fitted, Line, space
from memeloom.serve.drawing.letters import (
    Stamp,
    emoji_stamp,
    ems,
    fallback_size,
    letter_stamp,
    outline_width,
    shaped_stamp,
    width_of,
)
from memeloom.serve.drawing.runs import Run, in_visual_order
from memeloom.templates.colours import Rgb

_SHARE = {"left": 0.0, "center": 0.5, "right": 1.0}


class Ink(NamedTuple):
    """Colours of letters and their outline; None for no outline."""

    colour: Rgb
    outline: Rgb | None


class Paste(NamedTuple):
    """One paste: the left and upper edge, a mask, and a colour or an RGB picture of the mask's size."""

    x: int
    y: int
    mask: Image.Image
    source: Rgb | Image.Image


def lay_out(
    fitted: Fitted, font: Font, ink: Ink, area: tuple[int, int, int, int], align: Align, gravity: float
) -> list[Paste]:
    """Return the pastes of a text in order: outlines under all letters.

    Args:
        fitted: the lines.
        font: the font that they were fitted in.
        ink: the colours.
        area: left, top, width and height of the box, in pixels.
        align: where lines are that are shorter than the box.
        gravity: where a text is that is lower than its box: 0 at the top, 1 at the bottom.
    """
    left, top, width, height = area
    edge = outline_width(fitted.size) if ink.outline else 0
    first = top + (height - fitted.height) * gravity
    outlines, letters = [], []
    for line, baseline in zip(fitted.lines, fitted.baselines, strict=True):
        start = left + edge + (width - 2 * edge - line.width) * _SHARE[align]
        y = round(first + baseline)
        for x, stamp in _placed(line, start, fitted.size, edge, font):
            if stamp.letter.width > width or stamp.letter.height > height:
                continue
            # Letters may reach a little beyond the place that their font states for them.
            column = min(max(round(x) + stamp.dx, left), max(left, left + width - stamp.letter.width))
            row = min(max(y + stamp.dy, top), max(top, top + height - stamp.letter.height))
            if stamp.outline and ink.outline:
                outlines.append(Paste(column, row, stamp.outline, ink.outline))
            letters.append(Paste(column, row, stamp.letter, stamp.picture or ink.colour))
    return outlines + letters


def turned(pastes: Sequence[Paste], area: tuple[int, int, int, int], angle: float) -> list[Paste]:
    """Turn what was pasted in `area` by `angle` degrees clockwise around its middle.

    Pastes of one colour become one, so the number of turns does not depend on the number of letters.
    """
    left, top, width, height = area
    masks: dict[Rgb | None, Image.Image] = {}
    pictures = Image.new("RGB", (width, height))
    for paste in pastes:
        place = paste.x - left, paste.y - top
        colour = None if isinstance(paste.source, Image.Image) else paste.source
        if isinstance(paste.source, Image.Image):
            pictures.paste(paste.source, place)
        masks.setdefault(colour, Image.new("L", (width, height))).paste(255, place, paste.mask)
    found = []
    for colour, mask in masks.items():
        rotated = _rotated(mask, angle)
        corner = (left + (width - rotated.width) // 2, top + (height - rotated.height) // 2)
        found.append(Paste(*corner, rotated, _rotated(pictures, angle) if colour is None else colour))
    return found


def apply(pastes: Sequence[Paste], canvas: Image.Image) -> None:
    """Paste on `canvas`, RGB; what lies outside is left out."""
    for x, y, mask, source in pastes:
        canvas.paste(source, (x, y), mask)


def _rotated(layer: Image.Image, angle: float) -> Image.Image:
    return layer.rotate(-angle, Image.Resampling.BICUBIC, expand=True)


def _placed(line: Line, start: float, size: int, edge: int, font: Font) -> Iterator[tuple[float, Stamp]]:
    """Yield the stamps of a line with the places of their pens."""
    gap = space(font) * size
    simple = all(run.direction == "left" for word in line.words for run in word.runs)
    x = start
    if simple:
        for number, word in enumerate(line.words):
            x += gap if number and word.spaced else 0.0
            for run in word.runs:
                yield from _stamps(run, x, size, edge, font)
                x += width_of(run, size, font)
        return
    blank = Run(" ", font, "plain", "neutral")
    runs: list[Run] = []
    for number, word in enumerate(line.words):
        runs += [blank, *word.runs] if number and word.spaced else word.runs
    for run in in_visual_order(runs, rightwards=line.rightwards):
        if run.text != " ":
            yield from _stamps(run, x, size, edge, font)
        x += width_of(run, size, font)


def _stamps(run: Run, x: float, size: int, edge: int, font: Font) -> Iterator[tuple[float, Stamp]]:
    if run.kind == "emoji":
        yield x, emoji_stamp(run.text, run.font, size)
        return
    own = fallback_size(run, size, font)
    if run.kind == "shaped":
        stamp = shaped_stamp(run, own, edge)
        yield x - min(0, stamp.dx + edge), stamp
        return
    for character in run.text:
        yield x, letter_stamp(character, run.font, own, edge)
        x += ems(character, run.font) * own
