"""Corrects letters read as others of the same look: ``lowa``, ``cleariy``, ``GM0``, ``3OK``.

In many fonts ``l``, ``I``, ``i`` and ``1`` differ little, and so do ``O`` and ``0``. An unknown word is replaced by the
most frequent one that differs from it only so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from memeloom.engine.steps import Keep, Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.watermarks import is_address
from memeloom.ocr.words import WordModel, caption_words

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# "50", "30k", "2020s": the letter beside digits, with nothing but a unit behind.
_ZERO = re.compile(r"(?<=\d)[oO](?=[\doO]*(?:[kKmMbBsS]|th)?$)")
# "I", "I'm", "I'll", "I've" and "I'd" with a small L.
_PRONOUN = re.compile(r"l(?=$|['’](?:m|ll|ve|d)$)", re.IGNORECASE)
# One of these for a word: fonts are misread in one direction, and "jali" is not "jail".
_ALIKE = (("l", "i"), ("i", "l"), ("1", "i"), ("1", "l"), ("0", "o"))
_MAX_DOUBTS = 5
_SHORTEST = 3
# How much likelier (nats) "I" must be than "1" beside its neighbours. In Imgflip's captions, 93 of 100 "I" read as ones
# are mended, and 3 of 100 ones become "I".
_LIKELIER = 5.0


def correct_lookalikes(model: WordModel) -> Step[Reading]:
    """Return the step that corrects letters which only the words around them tell apart."""

    def step(reading: Reading) -> Keep[Reading]:
        corrected = [_corrected(word, model) for word in reading.words]
        between = zip([None, *corrected], corrected, [*corrected[1:], None], strict=False)
        words = tuple(
            replace(two, text="I") if _is_pronoun(one, two, three, model) else two for one, two, three in between
        )
        return Keep(reading if words == reading.words else replace(reading, words=words))

    return step


def correct_text(text: str, model: WordModel) -> str:
    """Return `text`, a word, with its look-alikes corrected. Addresses, hashtags and names of accounts stay."""
    if text.startswith(("#", "@")) or is_address(text):
        return text
    return _TOKEN.sub(lambda token: _correct(token[0], model), text)


def _corrected(word: Word, model: WordModel) -> Word:
    text = correct_text(word.text, model)
    return word if text == word.text else replace(word, text=text)


def _is_pronoun(before: Word | None, word: Word, after: Word | None, model: WordModel) -> bool:
    """Return whether `word`, which was read as a one, is rather the pronoun before the next word of its line."""
    if word.text != "1" or after is None or after.line != word.line:
        return False
    left = caption_words(before.text)[-1:] if before and before.line == word.line else []
    right = caption_words(after.text)[:1]
    number, pronoun = (_surprisal([*left, middle, *right], model) for middle in ("1", "i"))
    return bool(right) and number - pronoun > _LIKELIER


def _surprisal(words: Sequence[str], model: WordModel) -> float:
    rows = [model.row(word) for word in words]
    unseen = model.unseen_surprisal
    return sum(unseen if row is None else model.surprisal(row, before) for before, row in pairwise([None, *rows]))


def _correct(token: str, model: WordModel) -> str:
    token = _ZERO.sub("0", token)
    if token[0] == "l" and _PRONOUN.match(token):
        return f"I{token[1:]}"
    folded = token.casefold().replace("’", "'")
    if len(token) < _SHORTEST or len(folded) != len(token) or token.isdecimal() or folded in model:
        return token
    known = [(model.surprisal(row), other) for other in _others(folded) if (row := model.row(other)) is not None]
    if not known:
        return token
    best = min(known)[1]
    capitals = sum(map(str.isupper, token)) > sum(map(str.islower, token))
    return "".join(
        old if new == old.casefold() or new == "'" else new.upper() if capitals or (place == 0 and new == "i") else new
        for place, (old, new) in enumerate(zip(token, best, strict=True))
    )


def _others(word: str) -> Iterator[str]:
    for old, new in _ALIKE:
        if 0 < word.count(old) <= _MAX_DOUBTS:
            yield from map("".join, product(*((old, new) if letter == old else letter for letter in word)))
