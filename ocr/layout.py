"""Layout: words to lines, and lines to text boxes in reading order or to the template's boxes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memeloom.catalog.records import OcrBox, Place, TemplateBox, reading_order
from memeloom.ocr.engines.contract import Word

T = TypeVar("T")

# In line heights: largest gap to the next line of a box, largest gap between words of a line, and largest ratio of
# the heights of neighbouring lines.
_LINE_GAP, _WORD_GAP, _MAX_RATIO = 0.9, 1.5, 2.0
_DIGITS = 4  # of the places of lines: less than a pixel


@dataclass(frozen=True, slots=True)
class Line:
    """Words from left to right, and their bounding box in fractions of the picture."""

    words: tuple[Word, ...]
    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """Height in fractions of the picture's."""
        return self.bottom - self.top


def find_lines(words: Iterable[Word], aspect: float) -> list[Line]:
    """Return the lines of `words`, top to bottom: the engine's, split at wide gaps, close pieces of a row joined.

    aspect: the picture's width over its height.
    """
    rows = _group(_pieces(words, aspect), lambda a, b: _same_row(a, b, aspect))
    lines = [_line([word for piece in row for word in piece.words]) for row in rows]
    return sorted(lines, key=lambda line: (line.top, line.left))


def find_boxes(lines: Sequence[Line]) -> list[OcrBox]:
    """Return the text boxes of `lines` in reading order: rows from the top, each from the left."""
    return reading_order(_box(group) for group in _group(list(lines), _same_box))


def fill_boxes(words: Iterable[Word], aspect: float, places: Sequence[TemplateBox]) -> list[OcrBox]:
    """Return one box for each place of the template, in its order.

    Each line, split at wide gaps, goes to the place nearest to its middle. A place without lines gets an empty text, so
    that the caption has the shape of one stated by a page.
    """
    taken: list[list[Word]] = [[] for _ in places]
    for piece in _pieces(words, aspect):
        middle = (piece.left + piece.right) / 2, (piece.top + piece.bottom) / 2
        distances = [_distance(middle, place) for place in places]
        taken[distances.index(min(distances))] += piece.words
    return [
        _box(find_lines(inside, aspect))
        if inside
        else OcrBox(text="", x=place.x, y=place.y, width=place.width, height=place.height, confidence=0.0)
        for inside, place in zip(taken, places, strict=True)
    ]


def _pieces(words: Iterable[Word], aspect: float) -> list[Line]:
    by_line: dict[int, list[Word]] = {}
    for word in words:
        by_line.setdefault(word.line, []).append(word)
    return [_line(piece) for group in by_line.values() for piece in _split_at_gaps(group, aspect)]


def _split_at_gaps(words: Iterable[Word], aspect: float) -> list[list[Word]]:
    pieces: list[list[Word]] = []
    for word in sorted(words, key=lambda word: word.x):
        last = pieces[-1][-1] if pieces else None
        if last and (word.x - last.x - last.width) * aspect <= _WORD_GAP * max(last.height, word.height):
            pieces[-1].append(word)
        else:
            pieces.append([word])
    return pieces


def _line(words: Iterable[Word]) -> Line:
    row = tuple(sorted(words, key=lambda word: word.x))
    return Line(
        row,
        left=min(word.x for word in row),
        top=min(word.y for word in row),
        right=max(word.x + word.width for word in row),
        bottom=max(word.y + word.height for word in row),
    )


def _same_row(a: Line, b: Line, aspect: float) -> bool:
    shared = min(a.bottom, b.bottom) - max(a.top, b.top)
    gap = max(a.left, b.left) - min(a.right, b.right)
    height = min(a.height, b.height)
    close = gap * aspect <= _WORD_GAP * height
    # Lines above each other that barely overlap are two rows.
    return close and gap > -0.25 * min(a.right - a.left, b.right - b.left) and shared >= 0.6 * max(a.height, b.height)


def _same_box(a: Line, b: Line) -> bool:
    gap = max(a.top, b.top) - min(a.bottom, b.bottom)
    shared = min(a.right, b.right) - max(a.left, b.left)
    small, tall = sorted((a.height, b.height))
    return shared > 0 and gap <= _LINE_GAP * tall and tall <= _MAX_RATIO * small


def _group(items: list[T], related: Callable[[T, T], bool]) -> list[list[T]]:
    """Group items related directly or through others, in order."""
    groups: list[list[T]] = []
    for item in items:
        near = [group for group in groups if any(related(other, item) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([member for group in near for member in group] + [item])
    return groups


def _box(lines: Sequence[Line]) -> OcrBox:
    words = [word for line in lines for word in line.words]
    left, top = min(line.left for line in lines), min(line.top for line in lines)
    return OcrBox(
        text=" ".join(word.text for word in words),
        x=left,
        y=top,
        width=max(line.right for line in lines) - left,
        height=max(line.bottom for line in lines) - top,
        confidence=sum(word.confidence for word in words) / len(words),
        lines=tuple(_rounded(line.left, line.top, line.right - line.left, line.height) for line in lines),
    )


def _rounded(x: float, y: float, width: float, height: float) -> Place:
    return round(x, _DIGITS), round(y, _DIGITS), round(width, _DIGITS), round(height, _DIGITS)


def _distance(point: tuple[float, float], place: TemplateBox) -> tuple[float, float]:
    """Return the squared distances of `point` from `place` (0 inside) and from its middle."""
    x, y = point
    outside_x = max(place.x - x, 0.0, x - place.x - place.width)
    outside_y = max(place.y - y, 0.0, y - place.y - place.height)
    from_x, from_y = x - place.x - place.width / 2, y - place.y - place.height / 2
    return outside_x**2 + outside_y**2, from_x**2 + from_y**2
