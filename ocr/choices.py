"""Chooses among the readings of doubtful words: ``scientinc`` or ``scientific``, ``tound`` or ``found``.

The engine says how likely each reading is by its shape; the word model says how likely it is as a word of a caption.
"""

import math
from dataclasses import replace

from memeloom.engine.steps import Keep, Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import LETTER, WordModel, caption_words

# Weight of the word model's log probability beside the engine's, and how much better (nats) another reading must be.
_WEIGHT, _MARGIN = 0.5, 1.0
# Share of known words in a reading that is worth comparing with English ones.
_ENGLISH = 0.6


def choose_readings(model: WordModel) -> Step[Reading]:
    """Return the step that replaces words by known ones which the engine found nearly as likely."""

    def step(reading: Reading) -> Keep[Reading]:
        if model.known_share(word.text for word in reading.words) < _ENGLISH:
            return Keep(reading)
        words = tuple(_chosen(word, model) for word in reading.words)
        return Keep(reading if words == reading.words else replace(reading, words=words))

    return step


def _chosen(word: Word, model: WordModel) -> Word:
    # Numbers are no words, and any is as likely as another.
    if not word.others or any(map(str.isdigit, word.text)):
        return word
    own = caption_words(word.text)
    best, most = word, _MARGIN - _WEIGHT * _surprisal(own, model)
    for text, ratio in word.others:
        found = caption_words(text)
        if found == own or " " in text or not found or any(each not in model for each in found):
            continue
        score = math.log(ratio) - _WEIGHT * _surprisal(found, model)
        if score > most:
            best, most = replace(word, text=text, gaps=(), others=()), score
    return best


def _surprisal(words: list[str], model: WordModel) -> float:
    rows = [(word, model.row(word)) for word in words]
    return sum(
        model.unseen_surprisal + LETTER * len(word) if row is None else model.surprisal(row) for word, row in rows
    )
