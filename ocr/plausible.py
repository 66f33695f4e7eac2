"""Words that are not the caption's, told by where they stand, how large they are and how much of a word they are.

Photos hold text of their own (signs, shirts), screens their clock and battery, and textures look like letters to an
engine. A caption is large, sure, and made of words.
"""

import re
from collections.abc import Iterable, Sequence

from memeloom.ocr.engine import Word
from memeloom.ocr.lines import TextLine, text_lines
from memeloom.ocr.steps import Drop, Keep, Reading, Step
from memeloom.ocr.words import WordModel, caption_words

_CLOCK = re.compile(r"(?<!\d)[0-2]?\d[:.][0-5]\d(?:\s?[ap]m)?(?!\d)|(?<!\d)\d{1,3}\s?%", re.IGNORECASE)
_SCREEN_TOP, _SCREEN_SCALE = 0.05, 0.9
# Lines this much smaller than the caption are print in the photo, anywhere and at the rim ...
_SMALL, _SMALL_AT_RIM, _RIM = 0.5, 0.65, 0.04
# ... unless so many words stand there together: then they are text that is meant to be read.
_MANY_WORDS, _MANY_WORDS_AT_RIM = 6, 4
# Lines side by side, above and below belong together up to this gap, in heights of the line.
_GAP = 1.5
# At least this surely a word is what was read, whatever it is; short words, which noise looks like, less surely.
_SURE, _SURE_SHORT = 90.0, 85.0
_COMMON_SHORT = 1e-4
_SHORT = 3
_DOUBTFUL_WORDS = 2
# From so many letters alone in their lines they are a column that runs down the picture.
_COLUMN = 4
# Letters narrower than this, in heights of their line, stand on their heads. Fractions of the picture, so the
# widest and the tallest pictures are allowed for.
_TURNED = 0.05
_VOWEL = re.compile(r"[aeiouy]")
_CONSONANTS = re.compile(r"[a-z]+")


def drop_screen(reading: Reading) -> Keep:
    """Clock, battery and network of a phone's or a computer's screen go (``screen``)."""
    lines = [line for line in text_lines(reading.words) if line.top < _SCREEN_TOP and line.scale <= _SCREEN_SCALE]
    clocks = [line for line in lines if len(line.words) <= 6 and _CLOCK.search(line.text)]
    gone = [line for line in lines if any(_same_row(line, clock) for clock in clocks)]
    return Keep(reading.without(_words(gone), "screen"))


def drop_small_print(reading: Reading) -> Keep:
    """Few words that are much smaller than the caption are in the photo, or a mark (``small print``)."""
    lines = text_lines(reading.words)
    small = [line for line in lines if line.scale < _SMALL]
    gone = [line for line in small if _words_around(line, small) <= _MANY_WORDS]
    at_rim = [line for line in lines if line.scale < _SMALL_AT_RIM and line.rim <= _RIM and line not in gone]
    gone += [line for line in at_rim if _words_around(line, lines) < _MANY_WORDS_AT_RIM]
    return Keep(reading.without(_words(gone), "small print"))


def drop_columns(reading: Reading) -> Keep:
    """Turned lines and letters below each other are a sign, a frame or a credit (``column``)."""
    lines = text_lines(reading.words)
    gone = [line for line in lines if len(line.text) >= _COLUMN and _is_turned(line)]
    single = [line for line in lines if sum(map(str.isalnum, line.text)) <= 1]
    gone += single if len(single) >= _COLUMN else []
    return Keep(reading.without(_words(gone), "column"))


def need_words(model: WordModel | None) -> Step:
    """The step that takes out lines of one or two doubtful words of which none is a word (``not a word``).

    With a model, words are what it knows; without one, everything but a heap of Latin consonants.
    Drops a reading of which nothing is left (``not words``).
    """

    def step(reading: Reading) -> Keep | Drop:
        doubtful = [line for line in text_lines(reading.words) if _is_doubtful(line)]
        gone = [line for line in doubtful if not any(_is_word(word, line, model) for word in caption_words(line.text))]
        left = reading.without(_words(gone), "not a word")
        return Drop("not words") if gone and not left.words else Keep(left)

    return step


def _is_turned(line: TextLine) -> bool:
    return line.right - line.left < _TURNED * len(line.text) * (line.bottom - line.top)


def _is_doubtful(line: TextLine) -> bool:
    return line.confidence < _SURE and len(line.words) <= _DOUBTFUL_WORDS


def _is_word(word: str, line: TextLine, model: WordModel | None) -> bool:
    if model is None:
        return _CONSONANTS.fullmatch(word) is None or _VOWEL.search(word) is not None
    row = model.row(word)
    if row is None:
        return False
    return len(word) > _SHORT or line.confidence >= _SURE_SHORT or model.chance(row) >= _COMMON_SHORT


def _words(lines: Iterable[TextLine]) -> list[Word]:
    return [word for line in lines for word in line.words]


def _words_around(line: TextLine, lines: Sequence[TextLine]) -> int:
    """The words of `line` and of the lines next to it, directly or through others."""
    near, rest = [line], [other for other in lines if other is not line]
    for member in near:
        beside = [other for other in rest if _are_close(member, other)]
        near += beside
        rest = [other for other in rest if other not in beside]
    return sum(len(member.words) for member in near)


def _are_close(a: TextLine, b: TextLine) -> bool:
    low, high = sorted((a.bottom - a.top, b.bottom - b.top))
    gap = max(a.top, b.top) - min(a.bottom, b.bottom)
    return high <= 1.6 * low and gap <= _GAP * low and min(a.right, b.right) > max(a.left, b.left)


def _same_row(a: TextLine, b: TextLine) -> bool:
    return min(a.bottom, b.bottom) - max(a.top, b.top) >= 0.5 * min(a.bottom - a.top, b.bottom - b.top)
