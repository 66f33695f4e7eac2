"""Removes words that are not the caption's: text in photos, screenshots' clocks, textures that look like letters.

A caption is large, read with confidence, and made of words.
"""

import re
from collections.abc import Iterable, Sequence

from memeloom.engine.steps import Drop, Keep, Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading, TextLine, text_lines
from memeloom.ocr.words import WordModel, caption_words

_CLOCK = re.compile(r"(?<!\d)[0-2]?\d[:.][0-5]\d(?:\s?[ap]m)?(?!\d)|(?<!\d)\d{1,3}\s?%", re.IGNORECASE)
_SCREEN_TOP, _SCREEN_SCALE = 0.05, 0.9
# Lines this much smaller than the caption are text in the photo, anywhere and at the edge, ...
_SMALL, _SMALL_AT_EDGE, _MARGIN = 0.5, 0.65, 0.04
# ... unless this many words are together: those are meant to be read.
_MANY_WORDS, _MANY_WORDS_AT_EDGE = 6, 4
# ... or this many sure ones (a speech bubble), or a name after a dash.
_FEW_WORDS, _SURE = 3, 97.0
_AUTHOR = re.compile(r"[-–—~]\s?[^\W\d_]{2}")
# Largest gap between lines that belong together, in heights of the line.
_GAP = 1.5
# From this confidence a word is trusted, whatever it is; the lower bound is for short words that are known.
_CONFIDENT, _CONFIDENT_SHORT = 90.0, 85.0
_COMMON_SHORT = 1e-4
_SHORT = 3
_DOUBTFUL_WORDS = 2
# This many single letters below each other are a column.
_COLUMN = 4
# Letters narrower than this, in heights of their line, are rotated. In fractions of the picture, so with room for the
# widest and tallest pictures.
_ROTATED = 0.05
_VOWEL = re.compile(r"[aeiouy]")
_CONSONANTS = re.compile(r"[a-z]+")


def drop_screen(reading: Reading) -> Keep[Reading]:
    """Remove the status bar of a screenshot: clock, battery, network (``screen``)."""
    lines = [line for line in text_lines(reading.words) if line.top < _SCREEN_TOP and line.scale <= _SCREEN_SCALE]
    clocks = [line for line in lines if len(line.words) <= 6 and _CLOCK.search(line.text)]
    gone = [line for line in lines if any(_same_row(line, clock) for clock in clocks)]
    return Keep(reading.without(_words(gone), "screen"))


def drop_small_print(model: WordModel | None) -> Step[Reading]:
    """Return the step that removes few words much smaller than the caption: text in the photo, or a watermark.

    Their reason is ``small print``. Speech bubbles (some sure words that `model` knows, away from the edge) and the
    name under a quotation stay.
    """

    def step(reading: Reading) -> Keep[Reading]:
        lines = text_lines(reading.words)
        small = [line for line in lines if line.scale < _SMALL and not _AUTHOR.match(line.text)]
        gone = [line for line in small if not _is_meant(_lines_around(line, small), model)]
        at_edge = [
            line
            for line in lines
            if line.scale < _SMALL_AT_EDGE
            and line.margin <= _MARGIN
            and line not in gone
            and not _AUTHOR.match(line.text)
        ]
        gone += [line for line in at_edge if _count(_lines_around(line, lines)) < _MANY_WORDS_AT_EDGE]
        return Keep(reading.without(_words(gone), "small print"))

    return step


def drop_columns(reading: Reading) -> Keep[Reading]:
    """Remove rotated lines and columns of single letters: signs, frames, credits (``column``)."""
    lines = text_lines(reading.words)
    gone = [line for line in lines if len(line.text) >= _COLUMN and _is_rotated(line)]
    single = [line for line in lines if sum(map(str.isalnum, line.text)) <= 1]
    stacked = [line for line in single if any(_is_above(line, other) for other in single)]
    gone += stacked if len(stacked) >= _COLUMN else []
    return Keep(reading.without(_words(gone), "column"))


def need_words(model: WordModel | None) -> Step[Reading]:
    """Return the step that removes lines of one or two low-confidence non-words; it drops empty readings.

    A word is one that `model` knows; without a model, anything but Latin consonants only.
    """

    def step(reading: Reading) -> Keep[Reading] | Drop:
        doubtful = [line for line in text_lines(reading.words) if _is_doubtful(line)]
        gone = [line for line in doubtful if not any(_is_word(word, line, model) for word in caption_words(line.text))]
        left = reading.without(_words(gone), "not a word")
        return Drop("not words") if gone and not left.words else Keep(left)

    return step


def _is_rotated(line: TextLine) -> bool:
    return line.right - line.left < _ROTATED * len(line.text) * (line.bottom - line.top)


def _is_above(a: TextLine, b: TextLine) -> bool:
    """Return whether one is above the other. Letters set apart in a row are no column."""
    return min(a.right, b.right) > max(a.left, b.left) and not _same_row(a, b)


def _is_doubtful(line: TextLine) -> bool:
    return line.confidence < _CONFIDENT and len(line.words) <= _DOUBTFUL_WORDS


def _is_word(word: str, line: TextLine, model: WordModel | None) -> bool:
    if model is None:
        return _CONSONANTS.fullmatch(word) is None or _VOWEL.search(word) is not None
    row = model.row(word)
    if row is None:
        return False
    return len(word) > _SHORT or line.confidence >= _CONFIDENT_SHORT or model.share(row) >= _COMMON_SHORT


def _words(lines: Iterable[TextLine]) -> list[Word]:
    return [word for line in lines for word in line.words]


def _is_meant(lines: Sequence[TextLine], model: WordModel | None) -> bool:
    if _count(lines) > _MANY_WORDS:
        return True
    words = [word for line in lines for word in caption_words(line.text)]
    sure = all(line.confidence >= _SURE and line.margin > _MARGIN for line in lines)
    return model is not None and sure and len(words) >= _FEW_WORDS and all(word in model for word in words)


def _count(lines: Iterable[TextLine]) -> int:
    return sum(len(line.words) for line in lines)


def _lines_around(line: TextLine, lines: Sequence[TextLine]) -> list[TextLine]:
    near, rest = [line], [other for other in lines if other is not line]
    for member in near:
        beside = [other for other in rest if _are_close(member, other)]
        near += beside
        rest = [other for other in rest if other not in beside]
    return near


def _are_close(a: TextLine, b: TextLine) -> bool:
    low, high = sorted((a.bottom - a.top, b.bottom - b.top))
    gap = max(a.top, b.top) - min(a.bottom, b.bottom)
    return high <= 1.6 * low and gap <= _GAP * low and min(a.right, b.right) > max(a.left, b.left)


def _same_row(a: TextLine, b: TextLine) -> bool:
    return min(a.bottom, b.bottom) - max(a.top, b.top) >= 0.5 * min(a.bottom - a.top, b.bottom - b.top)
