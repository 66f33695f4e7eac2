"""Restores spaces that the engine lost, and removes those that it put into words.

``ANDTHEWINNERIS`` becomes ``AND THE WINNER IS``, and ``TH E W I N N E R`` becomes ``THE WINNER``.

Engines lose spaces mostly in condensed capitals. A word is split where the pieces are much more likely than an unknown
word (Viterbi's best path over words and word pairs), and after the end of a sentence: ``him.And``. Names and rare words
stay whole.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from memeloom.engine.steps import Keep, Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.watermarks import is_address
from memeloom.ocr.words import LETTER, WordModel

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{2})[.,!?;:…]+(?=[^\W\d_]{2}|[IAia]\b)")
# The end of a quotation, but not the middle of "don't", "o'clock" or "y'all".
_QUOTE_END = re.compile(r"([^\W\d_]{3,})['’](?=([^\W\d_]{3,}))")
# Surprisal (nats) that each letter of an unknown word beyond `_LONG` adds, and that of a number.
_LONG, _LONG_LETTER, _NUMBER = 12, 1.0, 7.0
# How much more likely (nats) the pieces must be than an unknown word, and than a known one.
_MARGIN, _KNOWN_MARGIN = 0.5, 5.0
# How much more likely (nats) a word must be than its pieces, which one short piece that is no word gives away; and how
# many single letters are a word with letters set apart.
_JOIN_MARGIN, _SET_APART = 8.0, 3
# Share of known words in a reading that is English throughout. In Hindi, "se ek" is not "seek".
_ENGLISH = 0.8
# Bonus for a split at a change of case: ``ForeverAlone``.
_CASE = 2.0
# Where the engine says that a space is less likely than this, there is none: "BigPharma".
_NO_SPACE = 0.001
# No two words have a lower surprisal.
_CHEAPEST_CUT = 5.0
# Most short "words" in captions are typing errors: the highest surprisal of pieces of 1, 2, 3 letters.
_SHORT = {1: -math.log(3000e-6), 2: -math.log(150e-6), 3: -math.log(20e-6)}
_LONGEST_WORD, _LONGEST_TOKEN = 24, 120
# A number, or the start of the text.
_NO_ROW = -1


class _State(NamedTuple):
    cost: float
    start: int
    before: int


def restore_spaces(model: WordModel) -> Step[Reading]:
    """Return the step that splits words which the engine ran together."""

    def step(reading: Reading) -> Keep[Reading]:
        words: list[Word] = []
        for word in reading.words:
            pieces = split_text(word.text, model, word.gaps)
            words += _cut_word(word, pieces) if len(pieces) > 1 else [word]
        return Keep(replace(reading, words=tuple(words)) if len(words) > len(reading.words) else reading)

    return step


def remove_spaces(model: WordModel) -> Step[Reading]:
    """Return the step that joins words which the engine cut in pieces."""

    def step(reading: Reading) -> Keep[Reading]:
        if model.known_share(word.text for word in reading.words) < _ENGLISH:
            return Keep(reading)
        words: list[Word] = []
        for _, line in groupby(reading.words, key=lambda word: word.line):
            for word in _join_letters(list(line), model):
                before = words[-1] if words and words[-1].line == word.line else None
                text = _joined(before.text, word.text, model) if before else None
                words[len(words) - bool(text) :] = [_merge([before, word], text) if before and text else word]
        return Keep(replace(reading, words=tuple(words)) if len(words) < len(reading.words) else reading)

    return step


def _join_letters(line: Sequence[Word], model: WordModel) -> list[Word]:
    """Join runs of single letters that are one known word."""
    found: list[Word] = []
    for single, run in groupby(line, key=lambda word: len(word.text) == 1 and word.text.isalpha()):
        letters = list(run)
        text = "".join(letter.text for letter in letters)
        known = single and len(letters) >= _SET_APART and text.casefold() in model
        found += [_merge(letters, text)] if known else letters
    return found


def _joined(before: str, after: str, model: WordModel) -> str | None:
    """Return the word of which these are pieces, with the apostrophe that it lacks; None if they are words."""
    bare = after.rstrip('.,!?…"”:;')
    left, right = before.casefold(), bare.casefold()
    if not (before.isalpha() and bare.isalpha()) or (_is_word(left, model) and _is_word(right, model)):
        return None
    apart = _piece_surprisal(left, None, model) + _piece_surprisal(right, model.row(left), model)
    for mark in ("", "'"):
        row = model.row(f"{left}{mark}{right}")
        if row is not None and apart - model.surprisal(row) > _JOIN_MARGIN:
            return f"{before}{mark}{after}"
    return None


def _is_word(piece: str, model: WordModel) -> bool:
    row, least = model.row(piece), _SHORT.get(len(piece))
    return row is not None and (least is None or model.surprisal(row) <= least)


def _piece_surprisal(piece: str, before: int | None, model: WordModel) -> float:
    row = model.row(piece)
    return model.unseen_surprisal + LETTER * len(piece) if row is None else model.surprisal(row, before)


def _merge(pieces: Sequence[Word], text: str) -> Word:
    last = pieces[-1]
    return replace(pieces[0], text=text, width=last.x + last.width - pieces[0].x, gaps=(), others=())


def split_text(text: str, model: WordModel, gaps: Sequence[float] = ()) -> list[str]:
    """Split `text`, which has no spaces, into words. Addresses and hashtags stay whole.

    gaps: probability of a space between each two characters, if known.
    """
    if len(text) > _LONGEST_TOKEN or text.startswith(("#", "@")) or is_address(text):
        return [text]
    cuts = [end.end() for end in _SENTENCE_END.finditer(text)]
    cuts += [end.end() for end in _QUOTE_END.finditer(text) if _are_words(end.groups(), model)]
    whole = {place for place, gap in enumerate(gaps, 1) if gap < _NO_SPACE} if len(gaps) == len(text) - 1 else set()
    cuts += [cut for token in _TOKEN.finditer(text) if len(token[0]) > 2 for cut in _cuts(token, model, whole)]
    cuts.sort()
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _are_words(texts: Iterable[str], model: WordModel) -> bool:
    return all(model.row(text.casefold()) is not None for text in texts)


def _cuts(token: re.Match[str], model: WordModel, whole: set[int]) -> list[int]:
    """Return where to cut `token`, not at the places of `whole`; all places are in the text that has the token."""
    text, first = token[0], token.start()
    folded = text.casefold().replace("’", "'")
    if len(folded) != len(text):
        return []
    row = model.row(folded)
    if row is None:
        letters = len(folded)
        bound = model.unseen_surprisal + LETTER * letters + _LONG_LETTER * max(0, letters - _LONG) - _MARGIN
    else:
        bound = model.surprisal(row) - _KNOWN_MARGIN
    if bound < _CHEAPEST_CUT:
        return []
    places = {place for place in range(1, len(text)) if first + place not in whole}
    cost, cuts = _best_path(folded, places, _case_changes(text), model)
    return [first + cut for cut in cuts] if cost < bound else []


def _best_path(text: str, places: set[int], case_changes: set[int], model: WordModel) -> tuple[float, list[int]]:
    """Return the surprisal of the most likely split of `text` into two or more words at `places`, and its positions."""
    places = places | {0, len(text)}
    # For each end, the best path to it for each last word.
    paths: list[dict[int, _State]] = [{_NO_ROW: _State(0.0, 0, _NO_ROW)}]
    for end in range(1, len(text) + 1):
        here: dict[int, _State] = {}
        for start in range(max(0, end - _LONGEST_WORD), end):
            ways = paths[start]
            if not ways or end - start == len(text) or not {start, end} <= places:
                continue
            row = _piece(text, start, end, model)
            if row is None:
                continue
            bonus = _CASE if start in case_changes else 0.0
            here[row] = min(
                _State(way.cost + _surprisal(row, before, model) - bonus, start, before) for before, way in ways.items()
            )
        paths.append(here)
    if not paths[-1]:
        return math.inf, []
    last = min(paths[-1].values())
    cost, cuts = last.cost, []
    while last.start:
        cuts.append(last.start)
        last = paths[last.start][last.before]
    return cost, cuts[::-1]


def _piece(text: str, start: int, end: int, model: WordModel) -> int | None:
    """Return the row of ``text[start:end]``; None if it is not allowed as a piece."""
    word = text[start:end]
    row = model.row(word)
    if row is not None and not word.isdecimal():
        least = _SHORT.get(end - start)
        return row if least is None or model.surprisal(row) <= least else None
    # A number is never split.
    whole = not text[start - 1 : start].isdecimal() and not text[end : end + 1].isdecimal()
    return _NO_ROW if end - start > 1 and word.isdecimal() and whole else None


def _surprisal(row: int, before: int, model: WordModel) -> float:
    if row == _NO_ROW:
        return _NUMBER
    return model.surprisal(row, None if before == _NO_ROW else before)


def _case_changes(text: str) -> set[int]:
    return {place for place in range(1, len(text)) if text[place - 1].islower() and text[place].isupper()}


def _cut_word(word: Word, pieces: Iterable[str]) -> list[Word]:
    found, start, step = [], 0, word.width / max(len(word.text), 1)
    for piece in pieces:
        found.append(replace(word, text=piece, x=word.x + start * step, width=len(piece) * step, gaps=(), others=()))
        start += len(piece)
    return found
