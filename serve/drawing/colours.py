"""Black, white, and which of them is easier to tell from a colour."""

from typing import Final

from memeloom.templates.colours import Rgb

BLACK: Final = (0, 0, 0)
WHITE: Final = (255, 255, 255)


def contrast(colour: Rgb) -> Rgb:
    """Return black or white, whichever is easier to tell from `colour` (Rec. 601 brightness)."""
    red, green, blue = colour
    return BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 127 else WHITE
