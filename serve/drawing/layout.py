"""Text fitted into a box: the largest letters whose lines fit, wrapped to lines of similar width."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from memeloom.serve.drawing.fonts import Font
from memeloom.serve.drawing.letters import LINE, ems, outline_width, reach, width_of
from memeloom.serve.drawing.runs import (
    Run,
    break_points,
    clusters,
    has_right_to_left,
    is_unspaced,
    runs_of,
    starts_right,
)

# Sizes of letters in pixels; few, so that drawn letters can be kept.
SIZES: Final = (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 27, 30, 33, 36, 40, 44, 48, 53, 58, 64,
                70, 77, 85, 94, 103, 113, 124, 136, 150, 165, 181, 199)  # fmt: skip
# Text of scripts without spaces is broken if it would otherwise be smaller than this share of the largest size,
_READABLE: Final = 0.2
_BREAK_GAIN: Final = 2.0  # and if breaking makes all letters at least this much larger.
_LONGEST: Final = 2000  # letters; more are cut
_BALANCE_STEPS: Final = 5


class Word(NamedTuple):
    """A word, or a part of one that a line may end after. ems: width in font sizes; None if it depends on the size.

    spaced: a space stands before it.
    """

    runs: tuple[Run, ...]
    text: str
    ems: float | None
    spaced: bool = True


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """A text to lay out.

    Attributes:
        words: of each paragraph.
        rightwards: of each paragraph: its lines run from the left.
        font: the preferred font.
        missing: letters that no font has.
        cut: it was longer than anything that is drawn.
        unspaced: some of it is in a script without spaces between words.
    """

    words: tuple[tuple[Word, ...], ...]
    rightwards: tuple[bool, ...]
    font: Font
    missing: tuple[str, ...]
    cut: bool
    unspaced: bool


class Line(NamedTuple):
    """A line of words; width in pixels without outline."""

    words: tuple[Word, ...]
    width: float
    rightwards: bool


@dataclass(frozen=True, slots=True)
class Fitted:
    """Lines at the largest size that fits.

    Attributes:
        size: of the letters, in pixels an em.
        lines: from the top.
        baselines: of the lines, in pixels from the top of the first line's outline.
        height: from there to the end of the last line's outline.
        cut: not all of the text is there.
    """

    size: int
    lines: tuple[Line, ...]
    baselines: tuple[float, ...]
    height: float
    cut: bool


@lru_cache(maxsize=512)  # one of a hundred words takes 40 KB
def read_text(text: str, font: Font) -> Paragraphs:
    """Cut `text` into paragraphs, at line feeds, and words."""
    composed = unicodedata.normalize("NFC", text[: 4 * _LONGEST])
    kept = composed[:_LONGEST]
    directed = has_right_to_left(kept)
    missing: list[str] = []
    paragraphs, rightwards = [], []
    for line in kept.splitlines():
        words = []
        for whole in line.split():
            for number, part in enumerate(break_points(whole)):
                found = runs_of(part, font, directed=directed)
                missing += found.missing
                if found.runs:
                    words.append(_word(found.runs, part, font, spaced=number == 0))
        if words:
            paragraphs.append(tuple(words))
            rightwards.append(not (directed and starts_right(line)))
    cut = len(kept) < len(composed) or len(text) > 4 * _LONGEST
    lost, unspaced = tuple(dict.fromkeys(missing)), is_unspaced(kept)
    return Paragraphs(tuple(paragraphs), tuple(rightwards), font, lost, cut, unspaced)


def fit(text: Paragraphs, width: int, height: int, largest: float, *, outlined: bool = True) -> Fitted | None:
    """Return the largest letters at which `text` fits `width` x `height` pixels, outlines included, and its lines.

    A word is broken only if it does not even fit in the smallest letters. None if there is nothing to draw, or no room
    for a single letter.
    """
    if not text.words:
        return None
    room = _Room(text, width, height, outlined=outlined)
    whole = room.search(largest, broken=False)
    if whole is None or (text.unspaced and whole.size < _READABLE * largest):
        broken = room.search(largest, broken=True)
        if broken and (whole is None or broken.size >= _BREAK_GAIN * whole.size):
            whole = broken
    return whole or room.cut()


def space(font: Font) -> float:
    """Return the width of a space in font sizes."""
    return ems(" ", font)


class _Room:
    """A box of `width` x `height` pixels to fill with a text."""

    def __init__(self, text: Paragraphs, width: int, height: int, *, outlined: bool) -> None:
        self._text = text
        self._width, self._height = width, height
        self._outlined = outlined
        self._space = space(text.font)

    def search(self, largest: float, *, broken: bool) -> Fitted | None:
        """Return the largest size at most `largest` at which all words fit. broken: words may be broken."""
        low, high, best = 0, len(SIZES) - 1, None
        while low <= high:
            middle = (low + high) // 2
            size = SIZES[middle]
            fitted = self._at(size, broken=broken) if size <= max(largest, SIZES[0]) else None
            if fitted:
                low, best = middle + 1, fitted
            else:
                high = middle - 1
        return self._balanced(best) if best and not broken else best

    def cut(self) -> Fitted | None:
        """Return as many lines of the smallest letters as fit; None if not even one does."""
        size = SIZES[0]
        lines = self._wrap(size, self._inner(size), broken=True) or []
        while lines:
            fitted = self._stacked(size, lines, cut=True)
            if fitted.height <= self._height:
                return fitted
            lines.pop()
        return None

    def _at(self, size: int, *, broken: bool) -> Fitted | None:
        lines = self._wrap(size, self._inner(size), broken=broken)
        if not lines or (len(lines) - 1) * LINE * size > self._height:
            return None
        fitted = self._stacked(size, lines, cut=self._text.cut)
        return fitted if fitted.height <= self._height else None

    def _balanced(self, found: Fitted) -> Fitted:
        """Return the same number of lines, with the longest as short as possible."""
        if len(found.lines) == len(self._text.words):
            return found
        best = found.lines
        high = max(line.width for line in best)
        low = sum(line.width for line in best) / len(best)
        for _ in range(_BALANCE_STEPS):
            middle = (low + high) / 2
            lines = self._wrap(found.size, middle, broken=False)
            if lines and len(lines) == len(best):
                best, high = tuple(lines), middle
            else:
                low = middle
        if best is found.lines:
            return found
        balanced = self._stacked(found.size, best, cut=found.cut)
        return balanced if balanced.height <= self._height else found

    def _inner(self, size: int) -> float:
        """Return the width between the outlines; one pixel is for rounding."""
        return self._width - 2 * self._outline(size) - 1

    def _outline(self, size: int) -> int:
        return outline_width(size) if self._outlined else 0

    def _wrap(self, size: int, room: float, *, broken: bool) -> list[Line] | None:
        """Wrap greedily; None if a word is wider than `room` and may not, or cannot, be broken."""
        lines = []
        gap = self._space * size
        for words, rightwards in zip(self._text.words, self._text.rightwards, strict=True):
            line: list[Word] = []
            used = 0.0
            for word in words:
                need = self._need(word, size)
                before = gap if word.spaced and line else 0.0
                if line and used + before + need <= room:
                    line.append(word)
                    used += before + need
                    continue
                if line:
                    lines.append(Line(tuple(line), used, rightwards))
                pieces = self._pieces(word, size, room) if need > room else [(word, need)]
                if not pieces or (len(pieces) > 1 and not broken):
                    return None
                lines += [Line((piece,), wide, rightwards) for piece, wide in pieces[:-1]]
                line, used = [pieces[-1][0]], pieces[-1][1]
            lines.append(Line(tuple(line), used, rightwards))
        return lines

    def _need(self, word: Word, size: int) -> float:
        if word.ems is not None:
            return word.ems * size
        return sum(width_of(run, size, self._text.font) for run in word.runs)

    def _pieces(self, word: Word, size: int, room: float) -> list[tuple[Word, float]]:
        """Cut `word` into pieces of at most `room` pixels; empty if a single letter is wider."""
        pieces: list[tuple[Word, float]] = []
        held: tuple[Word, float] | None = None
        directed = any(run.direction != "left" for run in word.runs)
        for cluster in clusters(word.text):
            longer = self._part((held[0].text if held else "") + cluster, size, directed=directed)
            if longer is None:
                continue
            if held and longer[1] > room:
                pieces.append(held)
                longer = self._part(cluster, size, directed=directed) or held
            if longer[1] > room:
                return []
            held = longer
        return [*pieces, held] if held else pieces

    def _part(self, text: str, size: int, *, directed: bool) -> tuple[Word, float] | None:
        runs = runs_of(text, self._text.font, directed=directed).runs
        if not runs:
            return None
        word = _word(runs, text, self._text.font, spaced=False)
        return word, self._need(word, size)

    def _stacked(self, size: int, lines: Sequence[Line], *, cut: bool) -> Fitted:
        font, edge = self._text.font, self._outline(size)
        reaches = [_reach(line, size, font) if _is_tall(line) else None for line in lines]
        first = reaches[0] or _reach(lines[0], size, font)
        last = reaches[-1] or _reach(lines[-1], size, font)
        baselines = [edge + float(first[0])]
        for above, below in pairwise(reaches):
            pitch = LINE * size
            if above or below:  # marks may stand above and below the usual letters
                usual = (0.9 * size, 0.12 * size)
                pitch = max(pitch, (above or usual)[1] + (below or usual)[0] + edge)
            baselines.append(baselines[-1] + pitch)
        # One pixel is for rounding.
        return Fitted(size, tuple(lines), tuple(baselines), baselines[-1] + last[1] + edge + 1, cut)


def _word(runs: tuple[Run, ...], text: str, font: Font, *, spaced: bool) -> Word:
    plain = all(run.kind == "plain" and run.font is font for run in runs)
    return Word(runs, text, sum(ems(run.text, font) for run in runs) if plain else None, spaced)


def _is_tall(line: Line) -> bool:
    return any(word.ems is None for word in line.words)


def _reach(line: Line, size: int, font: Font) -> tuple[int, int]:
    reaches = [reach(run, size, font) for word in line.words for run in word.runs]
    return max(up for up, _ in reaches), max(down for _, down in reaches)
