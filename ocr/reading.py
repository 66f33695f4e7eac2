"""A reading in progress: the words of one picture, and how large and where its lines are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from memeloom.ocr.engines.contract import Word


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of one picture, line by line. removed: each word taken out by a cleaning step, with the reason."""

    words: tuple[Word, ...]
    removed: tuple[tuple[Word, str], ...] = ()

    def without(self, gone: Sequence[Word], reason: str) -> "Reading":
        """Return this reading without the words of `gone`."""
        if not gone:
            return self
        names = {id(word) for word in gone}
        words = tuple(word for word in self.words if id(word) not in names)
        return replace(self, words=words, removed=self.removed + tuple((word, reason) for word in gone))


@dataclass(frozen=True)
class TextLine:
    """The words that the engine reported as one line. Edges are in fractions of the picture.

    scale: its height relative to the caption's, the height in which the median letter is set.
    """

    words: tuple[Word, ...]
    scale: float

    @cached_property
    def text(self) -> str:
        """Its words, joined by spaces."""
        return " ".join(word.text for word in self.words)

    @cached_property
    def top(self) -> float:
        """Upper edge."""
        return min(word.y for word in self.words)

    @cached_property
    def bottom(self) -> float:
        """Lower edge."""
        return max(word.y + word.height for word in self.words)

    @cached_property
    def left(self) -> float:
        """Left edge."""
        return min(word.x for word in self.words)

    @cached_property
    def right(self) -> float:
        """Right edge."""
        return max(word.x + word.width for word in self.words)

    @property
    def margin(self) -> float:
        """Distance to the nearest edge of the picture."""
        return max(0.0, min(self.left, self.top, 1 - self.right, 1 - self.bottom))

    @cached_property
    def confidence(self) -> float:
        """Highest confidence of its words, 0-100."""
        return max(word.confidence for word in self.words)


def text_lines(words: Sequence[Word]) -> list[TextLine]:
    """Return the lines of a reading, in the engine's order."""
    by_number: dict[int, list[Word]] = {}
    for word in words:
        by_number.setdefault(word.line, []).append(word)
    caption = _caption_height(by_number.values())
    return [TextLine(tuple(line), _height(line) / caption) for line in by_number.values()]


def _caption_height(lines: Iterable[Sequence[Word]]) -> float:
    sizes = sorted((_height(line), sum(len(word.text) for word in line)) for line in lines)
    half, seen = sum(letters for _, letters in sizes) / 2, 0
    for height, letters in sizes:
        seen += letters
        if seen >= half:
            return height or 1.0
    return 1.0


def _height(line: Sequence[Word]) -> float:
    return max(word.height for word in line)
