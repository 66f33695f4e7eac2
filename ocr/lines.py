"""A reading line by line: how large each is beside the caption, and how near to the picture's rim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from memeloom.ocr.engine import Word


@dataclass(frozen=True)
class TextLine:
    """The words that the engine read as one line.

    scale: its height beside the caption's, which is the height that the middle one of all letters stands in.
    """

    words: tuple[Word, ...]
    scale: float

    @cached_property
    def text(self) -> str:
        """Its words, a space between."""
        return " ".join(word.text for word in self.words)

    @cached_property
    def top(self) -> float:
        """In fractions of the picture, as are the others."""
        return min(word.y for word in self.words)

    @cached_property
    def bottom(self) -> float:
        """The lower edge."""
        return max(word.y + word.height for word in self.words)

    @cached_property
    def left(self) -> float:
        """The left edge."""
        return min(word.x for word in self.words)

    @cached_property
    def right(self) -> float:
        """The right edge."""
        return max(word.x + word.width for word in self.words)

    @property
    def rim(self) -> float:
        """How far the nearest edge of the picture is."""
        return max(0.0, min(self.left, self.top, 1 - self.right, 1 - self.bottom))

    @cached_property
    def confidence(self) -> float:
        """That of its surest word, 0-100."""
        return max(word.confidence for word in self.words)


def text_lines(words: Sequence[Word]) -> list[TextLine]:
    """The lines of a reading, in the engine's order."""
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
