"""Write typographic characters in ASCII, as a keyboard types them: quotes, dashes, ellipses, spaces, full-width forms.

Four of five captions that are not ASCII are plain English from a phone or an editor that replaces what is typed.
Currencies, emoji and other scripts have no such form and are left alone. Accents go from names ("Pokémon"), from words
that English took over ("café") unless the words beside them are foreign ("que rico café"), and in captions that are
English without those words ("this is Jürgen"). Elsewhere they stay, as they tell other languages.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal

from memeloom.dataset.steps.batch import PrefilteredStep, search_pattern
from memeloom.dataset.steps.caption import Caption, Outcome, Step, keep
from memeloom.dataset.steps.english_evidence import BORROWED, NAMES, WORD, balance, is_mostly_english
from memeloom.engine.steps import Keep

_TYPED: Final = {
    # Also accents and primes, which some keyboards have instead.
    "'": "\u2018\u2019\u201a\u201b\u2032\u2039\u203a\u00b4\u02b9\u02bb\u02bc\u02ca\u0091\u0092",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u00a8\u02ba\u301d\u301e\u301f\u0093\u0094",
    "`": "\u02cb\u2035",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e3a\u2e3b\ufe58\u0096\u0097",
    "...": "\u2026",
    "~": "\u02dc\u223c\u301c",
    "/": "\u2044\u2215",
    "x": "\u00d7",
    # Zero-width characters, soft hyphens, marks of direction and byte order, and selectors of how an emoji looks.
    "": "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068"
    "\u2069\ufe0e\ufe0f\ufeff",
    " ": "\u2028\u2029\u2800\u3164\uffa0",
}
# Compatibility forms of the same characters. Superscripts, fractions and encircled letters say more than their letters.
_FORMS: Final = ("<wide>", "<narrow>", "<font>", "<noBreak>", "<compat>", "<small>")
_ACCENTED: Final = re.compile("[\u00c0-\u024f]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
# Log-likelihood ratio (natural) of a caption without its accented words, from which it is taken for English.
_ENGLISH: Final = 1.0
_SPECIAL = re.compile(r"[^\x00-\x7f]")
# UTF-8 of the quotes, dashes and ellipsis that was read as Windows-1252: "thatâ€™d".
_MISREAD = re.compile("\u00e2\u20ac([\u2026\u2122\u0153\u201c\u201d\u2013\u2014\u02dc\u00a6\u009d])")


class _Table(dict[int, str]):
    """For `str.translate`: the ASCII form of a character, or the character itself if it has none."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        form, _, _ = unicodedata.decomposition(character).partition(" ")
        plain = unicodedata.normalize("NFKC", character) if form in _FORMS else character
        self[code] = plain if plain.isascii() else character
        return self[code]


_TABLE = _Table({ord(character): plain for plain, characters in _TYPED.items() for character in characters})


def write_ascii(text: str) -> str:
    """Return `text` with the ASCII form of each character that has one."""
    if "\u00e2\u20ac" in text:
        text = _MISREAD.sub(_read_again, text)
    return text.translate(_TABLE)


def without_accents(boxes: Sequence[str]) -> Sequence[str]:
    """Return the boxes of an English caption without accents, others unchanged."""
    text = unicodedata.normalize("NFC", " ".join(boxes))
    if not _ACCENTED.search(text):
        return boxes
    words = {*_LETTERS.findall(text.lower())}
    accented = {word for word in words if _ACCENTED.search(word)}
    rest = {*WORD.findall(text.lower())} - accented
    borrowed = {word for word in accented if _bare(word) in BORROWED}
    unknown = {word for word in accented - borrowed if _bare(word) not in NAMES}
    if (not unknown and (not borrowed or is_mostly_english(rest))) or (
        len(accented) <= len(rest) and balance(rest) >= _ENGLISH
    ):
        return [_bare(box) for box in boxes]
    return boxes


def _bare(text: str) -> str:
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))


def plain_typography(characters: Literal["ascii", "any"]) -> Step:
    """Replace typographic characters by ASCII; keep them where captions may have ``any`` character."""

    def step(caption: Caption) -> Outcome:
        return Keep(caption.with_boxes(tuple(without_accents([write_ascii(box) for box in caption.boxes]))))

    return PrefilteredStep(step, search_pattern(_SPECIAL)) if characters == "ascii" else keep


def _read_again(match: re.Match[str]) -> str:
    last = match[1].encode("latin-1" if match[1] == "\u009d" else "cp1252")
    return (b"\xe2\x80" + last).decode()
