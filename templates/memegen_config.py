"""Templates as memegen keeps them: a folder with `config.yml` and a picture `default.*`."""

from collections.abc import Mapping
from math import cos, radians, sin
from typing import Any, Final

from memeloom.catalog.records import Align, TemplateBox, TextStyle
from memeloom.configs.errors import ConfigError
from memeloom.templates.box_facts import MOST_BOXES
from memeloom.templates.colours import hex_colour

SOURCE: Final = "memegen"
# What memegen draws where the file says nothing: text at the top and at the bottom.
_DEFAULTS: Final[tuple[Mapping[str, Any], ...]] = ({}, {"anchor_y": 0.8})
_DEFAULT_FONT: Final = "thick"


def memegen_boxes(config: Mapping[str, Any], size: tuple[int, int], where: str) -> tuple[TemplateBox, ...]:
    """Return the text boxes of a `config.yml`.

    Args:
        config: its content.
        size: width and height of the picture in pixels, which the place of a turned text depends on.
        where: for messages.

    Raises:
        ConfigError: `text` is not a list of mappings with numbers and colours.
    """
    texts = config.get("text") or list(_DEFAULTS)
    if not isinstance(texts, list) or len(texts) > MOST_BOXES or not all(isinstance(text, Mapping) for text in texts):
        raise ConfigError(f"{where}: text: not a list of at most {MOST_BOXES} mappings")
    try:
        return tuple(_box(text, size) for text in texts)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: text: {error}") from None


def _box(text: Mapping[str, Any], size: tuple[int, int]) -> TemplateBox:
    width, height = float(text.get("scale_x", 1.0)), float(text.get("scale_y", 0.2))
    left, top = float(text.get("anchor_x", 0.0)), float(text.get("anchor_y", 0.0))
    angle = float(text.get("angle") or 0.0)
    if not all(abs(number) <= 2 for number in (width, height, left, top)) or min(width, height) <= 0:
        raise ValueError(f"anchors and scales are fractions of the picture: {dict(text)}")
    # memegen turns the text, and places the upper left corner of what it then covers.
    turn, wide, tall = radians(angle), width * size[0], height * size[1]
    covered = abs(wide * cos(turn)) + abs(tall * sin(turn)), abs(wide * sin(turn)) + abs(tall * cos(turn))
    x = left + (covered[0] - wide) / 2 / size[0]
    y = top + (covered[1] - tall) / 2 / size[1]
    return TemplateBox(
        x=x, y=y, width=width, height=height, angle=-angle, style=_style(text),
        start=min(max(float(text.get("start", 0.0)), 0.0), 1.0), stop=min(max(float(text.get("stop", 1.0)), 0.0), 1.0),
    )  # fmt: skip


def _style(text: Mapping[str, Any]) -> TextStyle:
    letters = str(text.get("style", "upper"))
    colour = hex_colour(str(text.get("color", "white")))
    font = str(text.get("font") or _DEFAULT_FONT)
    asked = str(text.get("align", "center"))
    align: Align = "left" if asked == "left" else "right" if asked == "right" else "center"
    return TextStyle(
        colour=colour,
        outline=None if colour == "#000000" else "#000000",
        capitals=letters == "upper",
        letters="lower" if letters == "lower" else "mock" if letters == "mock" else None,
        align=align,
        font=None if font == _DEFAULT_FONT else font,
    )
