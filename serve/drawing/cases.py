"""Capitals and small letters, as a text box wants them."""

import re
import unicodedata
from typing import Final

from memeloom.catalog.records import TextStyle

_GREEK_ACCENT: Final = re.compile("([\u0370-\u03ff])\u0301")


def cased(text: str, style: TextStyle | None, capitals: bool | None) -> str:
    """Return `text` in capitals (True) or as typed (False); None: as `style` says, capitals if it is unknown."""
    if capitals is not None:
        return upper(text) if capitals else text
    if style is None or (style.capitals and style.letters is None):
        return upper(text)
    if style.letters == "lower":
        return text.lower()
    if style.letters == "mock":
        return "".join(each.upper() if place % 2 else each.lower() for place, each in enumerate(text))
    return text


def upper(text: str) -> str:
    """Return `text` in capitals; Greek ones have no accents where all letters are capitals."""
    if text.isascii():
        return text.upper()
    return _GREEK_ACCENT.sub(r"\1", unicodedata.normalize("NFD", text.upper()))
