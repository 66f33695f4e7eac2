"""Colours as people write them."""

from typing import TypeAlias

from memeloom.configs.errors import MemeloomError

Rgb: TypeAlias = tuple[int, int, int]


class UnknownColour(MemeloomError, ValueError):
    """A text that is not a colour."""


def parse_colour(text: str) -> Rgb:
    """Parse an HTML name (``gold``) or hex digits with or without ``#`` (``#fd0``, ``ffdd00``); no transparency.

    Raises:
        UnknownColour: it is neither.
    """
    from PIL import ImageColor

    for written in (text, f"#{text}"):
        try:
            red, green, blue, *_ = ImageColor.getrgb(written)
        except ValueError:
            continue
        return red, green, blue
    raise UnknownColour(f"no such colour: {text[:40]!r} (an HTML name such as 'gold', or hex such as '#ffd700')")


def hex_colour(text: str) -> str:
    """Return a colour that `parse_colour` reads as ``#rrggbb``. Raises UnknownColour."""
    red, green, blue = parse_colour(text)
    return f"#{red:02x}{green:02x}{blue:02x}"
