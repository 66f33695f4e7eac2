"""Marks of sites, apps and authors on pictures: ``imgflip.com``, ``made with mematic``, ``@somebody``, ``u/somebody``.

They stand alone in a line, small or at the rim. The same words inside a caption ("I love imgflip") are the caption's.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from memeloom.ocr.engine import Word
from memeloom.ocr.lines import TextLine, text_lines
from memeloom.ocr.steps import Keep, Reading

# What generators and apps put on pictures, letters and digits only; read with errors it is still theirs.
_MARKS = (
    "imgflipcom", "madewithmematic", "mematicnet", "memegeneratornet", "memegenlink", "memecentercom", "makeamemeorg",
    "makememeappcom", "quickmemecom", "9gagcom", "via9gagcom", "ifunnyco", "ifunnymobi", "madewithkapwing",
    "livememecom", "weknowmemescom", "cheezburgercom", "icanhascheezburgercom", "memebasecom", "piccollage",
    "shutterstockcom", "alamystockphoto", "istockphoto", "adobestock", "depositphotos",
)  # fmt: skip
# These are in captions too: a mark only where they are small.
_NAMES = (
    "imgflip", "mematic", "memegenerator", "memecenter", "quickmeme", "9gag", "ifunny", "kapwing", "memedroid",
    "tiktok", "gettyimages", "shutterstock", "alamy", "dreamstime", "123rf", "facebookcom", "instagramcom",
    "twittercom", "redditcom", "youtubecom",
)  # fmt: skip
_PAIRS = {mark: frozenset(pairwise(mark)) for mark in _MARKS + _NAMES}
_ALIKE, _SHORT = 0.8, 8
# An address; the slash behind its end is often read as an l or a bar.
_ADDRESS = re.compile(
    r"(?:https?[:;]?/*)?(?:www\.)?[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|tv|co|io|ly|gg|info|mobi|uk)"
    r"(?:[/|l]\S*)?\W?",
    re.IGNORECASE,
)
# "u/name"; "@name", "TikTok @name", "© name"; "IG: name"; "via name".
_AUTHOR = re.compile(
    r"[ur]/\w{3,}|(?:\w+\s)?[@©]\s*\w+.{0,24}|(?:ig|fb|yt|twitter|credits?|source|photo|art)\s*:\s*\S.{2,24}|via\b\W*\w{3}.{0,24}"
)
_SMALL, _RIM = 0.85, 0.04
_MOST_WORDS = 4


def drop_marks(reading: Reading) -> Keep:
    """Take out what a site, an app or an author put on the picture (``watermark``)."""
    gone = [word for line in text_lines(reading.words) for word in _marks_in(line)]
    return Keep(reading.without(gone, "watermark"))


def is_address(text: str) -> bool:
    """Whether `text`, a word, is the address of a site or of a page."""
    return "." in text and _ADDRESS.fullmatch(text) is not None


def _marks_in(line: TextLine) -> Sequence[Word]:
    if len(line.words) <= _MOST_WORDS and _is_mark(line):
        return line.words
    # A line of the caption that runs into the mark.
    return [
        word for word in (line.words[0], line.words[-1]) if _at_rim(word) and _is_alike(_letters(word.text), _MARKS)
    ]


def _is_mark(line: TextLine) -> bool:
    letters, text = _letters(line.text), line.text.casefold()
    if _is_alike(letters, _MARKS):
        return True
    stated = all(map(is_address, text.split())) or _AUTHOR.fullmatch(text) is not None
    if line.scale < _SMALL:
        return stated or _is_alike(letters, _NAMES)
    # As large as the caption, perhaps because there is no other: one word at the rim.
    return stated and len(line.words) == 1 and line.rim <= _RIM and line.scale <= 1


def _at_rim(word: Word) -> bool:
    return min(word.y, 1 - word.y - word.height) <= _RIM


def _is_alike(letters: str, marks: Sequence[str]) -> bool:
    """Whether `letters` are one of `marks` as engines misread it, or an address below it."""
    if len(letters) < 4:
        return False
    pairs = set(pairwise(letters))
    for mark in marks:
        longer = len(letters) - len(mark)
        # Short names are ordinary words with a letter or two more or less: ``tick tock``.
        if (longer and len(mark) < _SHORT) or longer < -2 or (longer > 2 and not mark.endswith("com")):
            continue
        # Half of its pairs of letters survive an error in five characters, and are quickly counted.
        if 2 * len(pairs & _PAIRS[mark]) >= len(_PAIRS[mark]):
            text = letters[: len(mark)] if longer > 2 else letters
            if SequenceMatcher(None, text, mark, autojunk=False).ratio() >= _ALIKE:
                return True
    return False


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
