"""From what an engine read to a caption: small pure steps, each keeps a reading or drops it with a reason."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TypeAlias

from configs.schema import Ocr
from ocr.engine import Word

_MARKS = (
    "imgflip.com", "made with mematic", "memegenerator.net", "quickmeme.com", "memecenter.com", "makeameme.org",
    "memegen.link", "9gag.com", "ifunny.co", "ifunny.mobi",
)  # fmt: skip
# Words that captions use too: a mark only where nothing else stands in the line.
_LONE_MARKS = ("imgflip", "mematic", "kapwing", "ifunny")
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


def cleaning_steps(settings: Ocr) -> tuple[Step, ...]:
    """The steps in the order that the stage applies them."""
    return (
        mend_bars,
        need_text,
        lambda reading: keep_sure_words(reading, settings.min_confidence),
        drop_marks,
        need_text,
        lambda reading: limit_words(reading, settings.max_words),
    )


def mend_bars(reading: Reading) -> Keep | Drop:
    """A bar in a caption is an I that the engine took for one: nobody writes bars on memes."""
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


def drop_marks(reading: Reading) -> Keep | Drop:
    """Words that a site or an app puts on every picture (``imgflip.com``) are not the caption's."""
    lines: dict[int, list[Word]] = {}
    for word in reading.words:
        lines.setdefault(word.line, []).append(word)
    return Keep(reading.without([word for line in lines.values() for word in _marks_in(line)], "watermark"))


def limit_words(reading: Reading, max_words: int) -> Keep | Drop:
    """A page of text is not a meme (``too much text``)."""
    return Keep(reading) if len(reading.words) <= max_words else Drop("too much text")


def _marks_in(line: Sequence[Word]) -> Sequence[Word]:
    texts = [word.text.casefold() for word in line]
    if " ".join(texts) in _LONE_MARKS:
        return line
    found: list[Word] = []
    for mark in _MARKS:
        size = mark.count(" ") + 1
        for start in range(len(line) - size + 1):
            if _alike(" ".join(texts[start : start + size]), mark):
                found += line[start : start + size]
    return found


def _alike(text: str, mark: str) -> bool:
    """Whether `text` is `mark` as engines misread it: one character in five may be wrong."""
    if abs(len(text) - len(mark)) > 2:
        return False
    return SequenceMatcher(None, text, mark, autojunk=False).ratio() >= 0.8
