"""Tesseract's table of what it read (TSV), as words."""

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.engine import Word

Page: TypeAlias = NDArray[np.uint8]

_WORD_LEVEL, _COLUMNS = "5", 12


class PageReader(Protocol):
    """Reads pages with Tesseract, in whatever way."""

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """The words of `page`: their places in fractions of it, their lines counted from 0.

        page: greys, of shape (height, width). mode: Tesseract's page segmentation mode, how it looks for lines.
        deadline: `time.monotonic()` by which it must be done.

        Raises:
            ReadFailed: `timeout`, `engine failed`.
        """
        ...


def table_words(table: str, width: int, height: int) -> list[Word]:
    """The words of a table about a page of `width` x `height` pixels.

    Its columns: level, page, block, paragraph, line, word, left, top, width, height, confidence, text.
    """
    lines: dict[tuple[str, ...], int] = {}
    words = []
    for row in table.splitlines():
        cells = row.split("\t")
        if len(cells) != _COLUMNS or cells[0] != _WORD_LEVEL:
            continue
        text, confidence = cells[11].strip(), float(cells[10])
        if text and confidence >= 0:
            line = lines.setdefault(tuple(cells[1:5]), len(lines))
            left, top, wide, high = (int(cell) for cell in cells[6:10])
            words.append(Word(text, left / width, top / height, wide / width, high / height, confidence, line))
    return words
