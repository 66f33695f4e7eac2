"""Colours as people write them."""

from typing import Final, TypeAlias

from PIL import ImageColor

from memeloom.configs.errors import MemeloomError

Rgb: TypeAlias = tuple[int, int, int]

BLACK: Final = (0, 0, 0)
WHITE: Final = (255, 255, 255)


class UnknownColour(MemeloomError):
    """A text that is not a colour."""


def parse_colour(text: str) -> Rgb:
    """Parse an HTML name (``gold``) or hex digits with or without ``#`` (``#fd0``, ``ffdd00``).

    Raises:
        UnknownColour: it is neither.
    """
    for written in (text, f"#{text}"):
        try:
            red, green, blue, *_ = ImageColor.getrgb(written)
        except ValueError:
            continue
        return red, green, blue
    raise UnknownColour(f"no such colour: {text[:40]!r} (an HTML name such as 'gold', or hex such as '#ffd700')")


def contrast(colour: Rgb) -> Rgb:
    """Return black or white, whichever is easier to tell from `colour` (Rec. 601 brightness)."""
    red, green, blue = colour
    return BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 127 else WHITE
