"""From what an engine read to a caption: small pure steps, each keeps a reading or drops it with a reason."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from memeloom.configs.schema import Ocr
from memeloom.ocr.engine import Word
from memeloom.ocr.words import WordModel

_LETTER = re.compile(r"[^\W_]")
_BEYOND_DOUBT = 90.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of one picture, line by line. `removed`: each word that is gone, and why."""

    words: tuple[Word, ...]
    removed: tuple[tuple[Word, str], ...] = ()

    def without(self, gone: Sequence[Word], reason: str) -> "Reading":
        """This reading less the words of `gone`."""
        if not gone:
            return self
        names = {id(word) for word in gone}
        words = tuple(word for word in self.words if id(word) not in names)
        return replace(self, words=words, removed=self.removed + tuple((word, reason) for word in gone))


@dataclass(frozen=True, slots=True)
class Keep:
    """Go on with this reading."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class Drop:
    """The reading is not a caption; `reason` is counted."""

    reason: str


Step: TypeAlias = Callable[[Reading], Keep | Drop]


def clean(reading: Reading, steps: Sequence[Step]) -> tuple[Reading, str | None]:
    """`reading` after `steps`, and the reason of the step that dropped it (None if none did)."""
    for step in steps:
        match step(reading):
            case Keep(cleaned):
                reading = cleaned
            case Drop(reason):
                return reading, reason
    return reading, None


def cleaning_steps(settings: Ocr, model: WordModel | None = None) -> tuple[Step, ...]:
    """The steps in the order that the stage applies them.

    model: the words of the catalog's captions. Without it, as for languages other than English, lost spaces
        stay lost and no word is doubted for being unknown.
    """
    # They build on this module.
    from memeloom.ocr.marks import drop_marks
    from memeloom.ocr.plausible import drop_columns, drop_screen, drop_small_print, need_words
    from memeloom.ocr.spaces import restore_spaces

    return (
        mend_bars,
        need_text,
        lambda reading: keep_sure_words(reading, settings.min_confidence),
        drop_columns,
        drop_screen,
        drop_marks,
        *((restore_spaces(model),) if model else ()),
        drop_small_print,
        need_words(model),
        need_text,
        lambda reading: limit_words(reading, settings.max_words),
    )


def mend_bars(reading: Reading) -> Keep | Drop:
    """A bar in a caption is an I that the engine took for one: nobody writes bars on memes."""
    if not any("|" in word.text for word in reading.words):
        return Keep(reading)
    words = tuple(replace(word, text=word.text.replace("|", "I")) for word in reading.words)
    return Keep(replace(reading, words=words))


def need_text(reading: Reading) -> Keep | Drop:
    """A caption has at least two letters or digits (``no text``)."""
    letters = sum(len(_LETTER.findall(word.text)) for word in reading.words)
    return Keep(reading) if letters >= 2 else Drop("no text")


def keep_sure_words(reading: Reading, min_confidence: float) -> Keep | Drop:
    """Words below `min_confidence` are not there, nor are specks: lines without a letter, or with a doubtful one.

    Drops a reading of which nothing is left (``low confidence``).
    """
    unsure = [word for word in reading.words if word.confidence < min_confidence]
    sure = reading.without(unsure, "low confidence")
    letters = Counter[int]()
    for word in sure.words:
        # Photos make engines see single characters: one alone counts only if it is beyond doubt.
        letters[word.line] += len(_LETTER.findall(word.text)) * (2 if word.confidence >= _BEYOND_DOUBT else 1)
    sure = sure.without([word for word in sure.words if letters[word.line] < 2], "speck")
    return Keep(sure) if sure.words else Drop("low confidence")


def limit_words(reading: Reading, max_words: int) -> Keep | Drop:
    """A page of text is not a meme (``too much text``)."""
    return Keep(reading) if len(reading.words) <= max_words else Drop("too much text")
