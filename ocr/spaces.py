"""Restores spaces that the engine lost: ``ANDTHEWINNERIS`` becomes ``AND THE WINNER IS``.

Engines lose spaces mostly in condensed capitals. A word is split where the pieces are much more likely than an unknown
word (Viterbi's best path over words and word pairs), and after the end of a sentence: ``him.And``. Names and rare words
stay whole.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from memeloom.engine.steps import Keep, Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.watermarks import is_address
from memeloom.ocr.words import WordModel

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{2})[.,!?;:…]+(?=[^\W\d_]{2}|[IAia]\b)")
# The end of a quotation, but not the middle of "don't", "o'clock" or "y'all".
_QUOTE_END = re.compile(r"([^\W\d_]{3,})['’](?=([^\W\d_]{3,}))")
# Surprisal (nats) of each letter of an unknown word, what each letter beyond `_LONG` adds, and that of a number.
_LETTER, _LONG, _LONG_LETTER, _NUMBER = 1.7, 12, 1.0, 7.0
# How much more likely (nats) the pieces must be than an unknown word, and than a known one.
_MARGIN, _KNOWN_MARGIN = 0.5, 5.0
# Bonus for a split at a change of case: ``ForeverAlone``.
_CASE = 2.0
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
            pieces = split_text(word.text, model)
            words += _cut_word(word, pieces) if len(pieces) > 1 else [word]
        return Keep(replace(reading, words=tuple(words)) if len(words) > len(reading.words) else reading)

    return step


def split_text(text: str, model: WordModel) -> list[str]:
    """Split `text`, which has no spaces, into words. Addresses and hashtags stay whole."""
    if len(text) > _LONGEST_TOKEN or text.startswith(("#", "@")) or is_address(text):
        return [text]
    cuts = [end.end() for end in _SENTENCE_END.finditer(text)]
    cuts += [end.end() for end in _QUOTE_END.finditer(text) if _are_words(end.groups(), model)]
    cuts += [token.start() + cut for token in _TOKEN.finditer(text) if len(token[0]) > 2 for cut in _cuts(token, model)]
    cuts.sort()
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _are_words(texts: Iterable[str], model: WordModel) -> bool:
    return all(model.row(text.casefold()) is not None for text in texts)


def _cuts(token: re.Match[str], model: WordModel) -> list[int]:
    text = token[0]
    folded = text.casefold().replace("’", "'")
    if len(folded) != len(text):
        return []
    row = model.row(folded)
    if row is None:
        letters = len(folded)
        bound = model.unseen_surprisal + _LETTER * letters + _LONG_LETTER * max(0, letters - _LONG) - _MARGIN
    else:
        bound = model.surprisal(row) - _KNOWN_MARGIN
    if bound < _CHEAPEST_CUT:
        return []
    cost, cuts = _best_path(folded, _case_changes(text), model)
    return cuts if cost < bound else []


def _best_path(text: str, case_changes: set[int], model: WordModel) -> tuple[float, list[int]]:
    """Return the surprisal of the most likely split of `text` into two or more words, and its positions."""
    # For each end, the best path to it for each last word.
    paths: list[dict[int, _State]] = [{_NO_ROW: _State(0.0, 0, _NO_ROW)}]
    for end in range(1, len(text) + 1):
        here: dict[int, _State] = {}
        for start in range(max(0, end - _LONGEST_WORD), end):
            ways = paths[start]
            if not ways or end - start == len(text):
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
        found.append(replace(word, text=piece, x=word.x + start * step, width=len(piece) * step))
        start += len(piece)
    return found
