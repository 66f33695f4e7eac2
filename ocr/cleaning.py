"""Cleaning steps from an engine's words to a caption, and their order. Each keeps a reading or drops it."""

import re
from collections import Counter
from dataclasses import replace
from typing import TypeAlias

from memeloom.configs.schema import Ocr
from memeloom.engine import steps
from memeloom.engine.steps import Drop, Keep
from memeloom.ocr.choices import choose_readings
from memeloom.ocr.lookalikes import correct_lookalikes
from memeloom.ocr.noise import drop_columns, drop_screen, drop_small_print, need_words
from memeloom.ocr.reading import Reading
from memeloom.ocr.spaces import remove_spaces, restore_spaces
from memeloom.ocr.turning import is_nonsense
from memeloom.ocr.watermarks import drop_watermarks
from memeloom.ocr.words import WordModel

Step: TypeAlias = steps.Step[Reading]

_LETTER = re.compile(r"[^\W_]")
_CERTAIN = 90.0


def cleaning_steps(settings: Ocr, model: WordModel | None = None) -> tuple[Step, ...]:
    """Return the steps in order.

    model: words of the catalog's captions. Without it (languages other than English), misread words and look-alike
        letters are not corrected, lost spaces are not restored, and unknown words stay.
    """
    return (
        replace_bars,
        need_text,
        lambda reading: keep_confident_words(reading, settings.min_confidence),
        *((choose_readings(model),) if model else ()),
        drop_columns,
        drop_screen,
        drop_watermarks,
        *((remove_spaces(model), correct_lookalikes(model), restore_spaces(model)) if model else ()),
        drop_small_print(model),
        need_words(model),
        *((need_sense(model),) if model else ()),
        need_text,
        lambda reading: limit_words(reading, settings.max_words),
    )


def replace_bars(reading: Reading) -> Keep[Reading]:
    """Replace ``|`` by ``I``: engines confuse them, and captions have no bars. Other scripts have no ``I`` either."""
    text = "".join(word.text for word in reading.words)
    if "|" not in text:
        return Keep(reading)
    letters = list(filter(str.isalpha, text))
    letter = "I" if 2 * sum(map(str.isascii, letters)) >= len(letters) else ""
    words = tuple(replace(word, text=word.text.replace("|", letter)) for word in reading.words)
    return Keep(replace(reading, words=tuple(word for word in words if word.text)))


def need_text(reading: Reading) -> Keep[Reading] | Drop:
    """Drop a reading with fewer than two letters or digits (``no text``)."""
    letters = sum(len(_LETTER.findall(word.text)) for word in reading.words)
    return Keep(reading) if letters >= 2 else Drop("no text")


def keep_confident_words(reading: Reading, min_confidence: float) -> Keep[Reading] | Drop:
    """Remove words below `min_confidence`, and specks: lines with no letter, or a single doubtful one.

    Drops a reading of which nothing is left (``low confidence``).
    """
    doubtful = [word for word in reading.words if word.confidence < min_confidence]
    confident = reading.without(doubtful, "low confidence")
    letters = Counter[int]()
    for word in confident.words:
        # Engines see single characters in photos: one alone counts only if it is certain.
        letters[word.line] += len(_LETTER.findall(word.text)) * (2 if word.confidence >= _CERTAIN else 1)
    confident = confident.without([word for word in confident.words if letters[word.line] < 2], "speck")
    return Keep(confident) if confident.words else Drop("low confidence")


def need_sense(model: WordModel) -> Step:
    """Return the step that drops a doubtful reading which has hardly a known word (``nonsense``)."""
    return lambda reading: Drop("nonsense") if is_nonsense(reading.words, model) else Keep(reading)


def limit_words(reading: Reading, max_words: int) -> Keep[Reading] | Drop:
    """Drop a page of text (``too much text``)."""
    return Keep(reading) if len(reading.words) <= max_words else Drop("too much text")
