"""Captions drawn on a picture: each text in its box, in one of three styles, on every frame."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal, TypeAlias

from PIL import Image, ImageFilter, ImageStat

from memeloom.catalog.records import TemplateBox, TextStyle
from memeloom.configs.errors import MemeloomError
from memeloom.serve.drawing.boxes import default_boxes
from memeloom.serve.drawing.colours import BLACK, WHITE, contrast
from memeloom.serve.drawing.fonts import Font, UnknownFont, default_font, find_font
from memeloom.serve.drawing.layout import fit, read_text
from memeloom.serve.drawing.letters import capital
from memeloom.serve.drawing.pictures import Picture, flatten
from memeloom.serve.drawing.stamps import Ink, Paste, apply, lay_out, turned
from memeloom.templates.colours import Rgb, parse_colour

Style: TypeAlias = Literal["classic", "bar", "plain"]
Area: TypeAlias = tuple[int, int, int, int]

_GREEK_ACCENT: Final = re.compile("([\u0370-\u03ff])\u0301")
MAX_SIDE: Final = 5000  # pixels, of a drawn picture

_MARGIN: Final = 0.01  # between text and the edges of the picture, as a share of its mean side
_LARGEST: Final = 0.13  # largest font size, as a share of the picture's mean side
_USUAL: Final = 1.15  # and of learned boxes, in multiples of the size that letters have in them
# A box without a style is a sign if it is narrower than this share of the picture,
_SIGN_WIDTH: Final = 0.8
_LIGHT, _PLAIN = 225, 0.9  # and this share of its pixels at least this bright.
_BAR_LETTERS: Final = 0.075  # largest font size in the bar, as a share of the picture's mean side
_BAR_MARGIN: Final = 0.03  # around the bar's text, as a share of the width
_BAR_HEIGHT: Final = 0.6  # of the bar, at most, as a share of the picture's height
_DARKER: Final = 0.4  # brightness of the blurred picture around a padded one
_BLUR: Final = 16  # pixels to which it is scaled down


@dataclass(frozen=True)
class DrawOptions:
    """How to draw.

    Attributes:
        style: ``classic``: each box in its own style; where it states none, white with a black outline, on a sign or
            speech bubble black without; ``bar``: all
            texts in a white bar above the picture; ``plain``: without outline, black or white, whichever stands out.
        font: id or alias of a font (`fonts.find_font`); None: the box's own, else the default.
        colours: of each box, HTML names or hex; None or a missing one: the style's.
        capitals: True for capitals, False as typed, None as each box says: capitals if it does not.
        layout: ``top`` is another name of the bar.
        size: width and height in pixels; 0: in proportion. Both given: the picture is padded to exactly that size.
        background: colour of the padding; None: the picture, blurred and darkened.
        largest: limit on the size of letters, in pixels.
    """

    style: Style = "classic"
    font: str | None = None
    colours: Sequence[str | None] = ()
    capitals: bool | None = None
    layout: Literal["default", "top"] = "default"
    size: tuple[int, int] = (0, 0)
    background: str | None = None
    largest: int | None = None


@dataclass(frozen=True)
class Drawing:
    """A drawn picture.

    Attributes:
        frames: RGB images of one size.
        durations: of each frame in milliseconds; 0 for a still.
        cut: numbers of the texts, from 0, that did not fit even in the smallest letters and were cut.
        missing: letters that no font has, left out.
        still: number of the frame that shows most texts.
    """

    frames: tuple[Image.Image, ...]
    durations: tuple[int, ...]
    cut: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    still: int = 0


@dataclass
class _Plan:
    """What is pasted, and when: (start, stop) in fractions of the duration."""

    layers: list[tuple[float, float, list[Paste]]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)


def draw(
    picture: Picture, boxes: Sequence[TemplateBox], texts: Sequence[str], options: DrawOptions | None = None
) -> Drawing:
    """Draw each text in its box, in the largest letters that fit, wrapped; on every frame of a moving picture.

    A box at the upper or lower edge is aligned to it.

    Args:
        picture: the template's.
        boxes: fractions of the picture, angles in degrees clockwise. Empty: `default_boxes`.
        texts: one for each box; texts beyond the last box are appended to its text.
        options: None: all defaults.

    Raises:
        UnknownFont: no font has the name that `options` gives.
        BadDrawing: a colour or size cannot be used.
    """
    options = options or DrawOptions()
    frames = [_scaled(frame, options.size) for frame in picture.frames]
    boxes = boxes or default_boxes(len(texts))
    texts = list(texts)
    if len(texts) > len(boxes):
        texts[len(boxes) - 1 :] = [" ".join(texts[len(boxes) - 1 :])]
    plan = _Plan()
    if options.style == "bar" or options.layout == "top":
        frames = _with_bar(frames, plan, texts, options)
    else:
        if len(frames) == 1:
            texts = _together(boxes, texts)
        for number, (box, text) in enumerate(zip(boxes, texts, strict=False)):
            _plan_text(plan, frames[0], box, text, number, options)
    still = _paste(frames, picture.durations, plan)
    if all(options.size):
        frames = [_padded(frame, options.size, options.background) for frame in frames]
    return Drawing(tuple(frames), picture.durations, tuple(plan.cut), tuple(plan.missing), still)


def draw_caption(picture: Image.Image, boxes: Sequence[TemplateBox], texts: Sequence[str]) -> Image.Image:
    """Draw one text in each box onto a copy of a still, in letters as typed; see `draw`.

    Args:
        picture: of any mode and size; transparency becomes white.
        boxes: fractions of the picture. Empty: `default_boxes`.
        texts: one for each box; texts beyond the last box are appended to its text.

    Returns:
        A new RGB image of the same size.
    """
    return draw(Picture.of(picture), boxes, texts, DrawOptions(capitals=False)).frames[0]


def draw_meme(
    picture: Image.Image | Path | str, texts: Sequence[str], boxes: Sequence[TemplateBox] = ()
) -> Image.Image:
    """Draw a meme: `texts`, in capitals unless their box says otherwise, on a copy of `picture`.

    Args:
        picture: a Pillow image, or the path of one.
        texts: one text a box.
        boxes: the template's text boxes; none: `default_boxes`.

    Returns:
        A new RGB image of the same size.
    """
    if not isinstance(picture, Image.Image):
        with Image.open(picture) as opened:
            picture = flatten(opened)
    return draw(Picture.of(picture), boxes, texts).frames[0]


def _plan_text(
    plan: _Plan, canvas: Image.Image, box: TemplateBox, text: str, number: int, options: DrawOptions
) -> None:
    area = _area(box, canvas.size)
    style = box.style
    font = find_font(options.font) if options.font else _own_font(style)
    largest = _largest(style, font, canvas.size, options)
    ink = _ink(canvas, area, style, number, options)
    words = read_text(_cased(text, style, options.capitals), font)
    plan.missing |= dict.fromkeys(words.missing)
    fitted = fit(words, area[2], area[3], largest, outlined=ink.outline is not None)
    if words.words and (fitted is None or fitted.cut):
        plan.cut.append(number)
    if fitted is None:
        return
    turn = box.angle % 360
    gravity = 0.5 if turn else 0.0 if box.y < 0.03 else 1.0 if box.y + box.height > 0.95 else 0.5
    pastes = lay_out(fitted, font, ink, area, style.align if style else "center", gravity)
    plan.layers.append((box.start, box.stop, turned(pastes, area, turn) if turn else pastes))


def _together(boxes: Sequence[TemplateBox], texts: Sequence[str]) -> list[str]:
    """Join texts that a moving picture shows one after the other in one place: a still shows them at once."""
    joined = list(texts)
    for place, (box, text) in enumerate(zip(boxes, texts, strict=False)):
        for before in range(place):
            other = boxes[before]
            if (other.stop <= box.start or box.stop <= other.start) and _overlap(box, other) > 0.5 and joined[before]:
                joined[before], joined[place] = f"{joined[before]}\n{text}".strip(), ""
                break
    return joined


def _overlap(box: TemplateBox, other: TemplateBox) -> float:
    """Return the area that two boxes share, turns aside, over that of the smaller one."""
    width = min(box.x + box.width, other.x + other.width) - max(box.x, other.x)
    height = min(box.y + box.height, other.y + other.height) - max(box.y, other.y)
    smaller = min(box.width * box.height, other.width * other.height)
    return max(0.0, width) * max(0.0, height) / smaller if smaller else 0.0


def _with_bar(frames: list[Image.Image], plan: _Plan, texts: Sequence[str], options: DrawOptions) -> list[Image.Image]:
    """Plan all texts, one paragraph each, in a bar; return the frames below it."""
    width, height = frames[0].size
    font = find_font(options.font)
    words = read_text("\n".join(_upper(text) if options.capitals else text for text in texts), font)
    plan.missing |= dict.fromkeys(words.missing)
    margin = max(1, round(_BAR_MARGIN * width))
    largest = min(_BAR_LETTERS * (width * height) ** 0.5, options.largest or height)
    most = max(1, round(_BAR_HEIGHT * height))
    fitted = fit(words, width - 2 * margin, most, largest, outlined=False)
    if words.words and (fitted is None or fitted.cut):
        plan.cut += [number for number, text in enumerate(texts) if text.strip()]
    if fitted is None:
        return frames
    tall = round(fitted.height) + 2 * margin
    area = (margin, margin, width - 2 * margin, round(fitted.height))
    colour = parse_colour(options.colours[0]) if options.colours and options.colours[0] else BLACK
    plan.layers.append((0.0, 1.0, lay_out(fitted, font, Ink(colour, None), area, "center", 0.5)))
    extended = []
    for frame in frames:
        whole = Image.new("RGB", (width, height + tall), WHITE)
        whole.paste(frame, (0, tall))
        extended.append(whole)
    return extended


def _paste(frames: Sequence[Image.Image], durations: Sequence[int], plan: _Plan) -> int:
    """Paste on all frames; return the number of the first one that shows most texts."""
    if len(frames) == 1:
        for _, _, pastes in plan.layers:
            apply(pastes, frames[0])
        return 0
    for frame, middle in zip(frames, _middles(durations), strict=True):
        for start, stop, pastes in plan.layers:
            if start <= middle <= stop:
                apply(pastes, frame)
    return fullest_frame(durations, [(start, stop) for start, stop, _ in plan.layers])


def fullest_frame(durations: Sequence[int], times: Sequence[tuple[float, float]]) -> int:
    """Return the number of the first frame that shows most texts; `times`: when each is shown, as in a box."""
    shown = [sum(start <= middle <= stop for start, stop in times) for middle in _middles(durations)]
    return shown.index(max(shown))


def _middles(durations: Sequence[int]) -> list[float]:
    """Return the middle of each frame in fractions of the duration of all."""
    whole = max(sum(durations), 1)
    ends = accumulate(durations)
    return [(end - duration / 2) / whole for end, duration in zip(ends, durations, strict=True)]


def _area(box: TemplateBox, size: tuple[int, int]) -> Area:
    """Return the pixels of a box; unless it is turned, those in the picture and away from its edges."""
    width, height = size
    left, top = round(box.x * width), round(box.y * height)
    right, bottom = left + round(box.width * width), top + round(box.height * height)
    if not box.angle % 360:
        margin = round(_MARGIN * (width * height) ** 0.5)
        left, top = max(left, margin), max(top, margin)
        right, bottom = min(right, width - margin), min(bottom, height - margin)
    return left, top, right - left, bottom - top


def _own_font(style: TextStyle | None) -> Font:
    """Return the font that a box asks for, or the default where that font is not installed."""
    try:
        return find_font(style.font if style else None)
    except UnknownFont:
        return default_font()


def _largest(style: TextStyle | None, font: Font, size: tuple[int, int], options: DrawOptions) -> float:
    """Return the largest size of letters: as in memes on the template if that is known."""
    usual = style.size * size[1] / capital(font) * _USUAL if style and style.size else None
    largest = usual or _LARGEST * (size[0] * size[1]) ** 0.5
    return min(largest, options.largest) if options.largest else largest


def _ink(canvas: Image.Image, area: Area, style: TextStyle | None, number: int, options: DrawOptions) -> Ink:
    asked = options.colours[number] if number < len(options.colours) else None
    outlined = options.style == "classic" and (style is None or style.outline is not None)
    if asked:
        colour = parse_colour(asked)
        return Ink(colour, contrast(colour) if outlined else None)
    if options.style == "plain":
        return Ink(_outstanding(canvas, area), None)
    if style is None:
        return (
            Ink(BLACK, None) if area[2] < _SIGN_WIDTH * canvas.width and _is_sign(canvas, area) else Ink(WHITE, BLACK)
        )
    return Ink(parse_colour(style.colour), parse_colour(style.outline) if style.outline else None)


def _outstanding(canvas: Image.Image, area: Area) -> Rgb:
    """Return black or white, whichever is easier to read on that part of the picture."""
    part = _part(canvas, area)
    if part is None:
        return BLACK
    red, green, blue = ImageStat.Stat(part).median
    return contrast((red, green, blue))


def _is_sign(canvas: Image.Image, area: Area) -> bool:
    """Return whether that part of the picture is light and plain, as signs and speech bubbles are."""
    part = _part(canvas, area)
    if part is None:
        return False
    counts = part.convert("L").histogram()
    return sum(counts[_LIGHT:]) >= _PLAIN * sum(counts)


def _part(canvas: Image.Image, area: Area) -> Image.Image | None:
    left, top, width, height = area
    box = (max(0, left), max(0, top), min(canvas.width, left + width), min(canvas.height, top + height))
    return canvas.crop(box) if box[0] < box[2] and box[1] < box[3] else None


def _cased(text: str, style: TextStyle | None, capitals: bool | None) -> str:
    if capitals is not None:
        return _upper(text) if capitals else text
    if style is None or (style.capitals and style.letters is None):
        return _upper(text)
    if style.letters == "lower":
        return text.lower()
    if style.letters == "mock":
        return "".join(each.upper() if place % 2 else each.lower() for place, each in enumerate(text))
    return text


def _upper(text: str) -> str:
    """Return `text` in capitals; Greek ones have no accents where all letters are capitals."""
    if text.isascii():
        return text.upper()
    return _GREEK_ACCENT.sub(r"\1", unicodedata.normalize("NFD", text.upper()))


def _scaled(frame: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a copy of `frame` that fits `size`; 0 is no limit."""
    width, height = size
    if not (width or height):
        return frame.copy()
    ratios = [wanted / have for wanted, have in zip(size, frame.size, strict=True) if wanted]
    factor = min(ratios)
    scaled = max(1, round(frame.width * factor)), max(1, round(frame.height * factor))
    if min(size) < 0 or max(*size, *scaled) > MAX_SIDE:
        raise BadDrawing(f"a picture of {scaled[0]} x {scaled[1]} pixels cannot be drawn: {MAX_SIDE} a side at most")
    return frame.resize(scaled, Image.Resampling.LANCZOS)


def _padded(frame: Image.Image, size: tuple[int, int], background: str | None) -> Image.Image:
    if frame.width > size[0] or frame.height > size[1]:  # with a bar
        frame = _scaled(frame, size)
    if frame.size == size:
        return frame
    if background is None:
        small = frame.resize((_BLUR, _BLUR), Image.Resampling.BOX).filter(ImageFilter.GaussianBlur(1))
        ground = small.point(lambda value: value * _DARKER).resize(size, Image.Resampling.BICUBIC)
    else:
        ground = Image.new("RGB", size, parse_colour(background))
    ground.paste(frame, ((size[0] - frame.width) // 2, (size[1] - frame.height) // 2))
    return ground


class BadDrawing(MemeloomError):
    """What was asked for cannot be drawn."""
