"""Tesseract on pages it reads well, dark text on white, made from each picture in two or three passes.

The first pass keeps only how white a pixel is, which turns outlined letters into clean shapes and hides most of the
photo. The second is the grey picture; the third, if little was found, keeps brightness in any colour. Later passes only
fill gaps.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.engines.contract import Word
from memeloom.ocr.engines.tesseract_page import (
    Page,
    PageReader,
    TesseractApi,
    TesseractProgram,
    check_api,
    check_program,
    has_api,
)

# Tuned on half of the real and of the drawn memes. Square roots of the areas that are read:
_SIDE, _GREY_SIDE = 800, 600
# A pixel's darkest channel (whiteness) and brightest one (brightness): range between paper and ink.
_WHITENESS, _BRIGHTNESS = (160, 250), (180, 250)
# Tesseract's page segmentation modes: one block of lines, or automatic layout.
_ONE_BLOCK, _AUTOMATIC = 6, 3
# Confidence required of words from later passes; below this many confident characters there is a third pass.
_MIN_CONFIDENCE, _FEW_CHARACTERS = 80.0, 60


class Tesseract:
    """Reads each picture in two or three passes: in this process with tesserocr, else with the program."""

    name = "tesseract"

    def __init__(self, language: str, seconds: float, reader: PageReader | None = None) -> None:
        """seconds: deadline per picture. reader: replaces the one chosen for this machine. Raises EngineMissing."""
        self._seconds = seconds
        self._read_page = reader or (TesseractApi(language) if has_api() else TesseractProgram(language))

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        """Return the words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        words: list[Word] = []
        for page, mode, min_confidence in _passes(picture, words):
            found = self._read_page(page, mode, deadline)
            first = 1 + max((word.line for word in words), default=-1)
            words += [
                replace(word, line=first + word.line)
                for word in found
                if word.confidence >= min_confidence and not _overlaps(word, words)
            ]
        return words


def open_engine(language: str, seconds: float) -> Tesseract:
    """Load Tesseract for `language`; `seconds` is the deadline per picture. Raises EngineMissing."""
    return Tesseract(language, seconds)


def check(language: str) -> None:
    """Check that Tesseract and its packs for `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    (check_api if has_api() else check_program)(language)


def _passes(picture: NDArray[np.uint8], words: list[Word]) -> Iterator[tuple[Page, int, float]]:
    """Yield pages, segmentation modes and least confidences; the caller adds what it found to `words` in between."""
    scaled = _scale(picture, _SIDE)
    yield _to_ink(scaled.min(axis=2), *_WHITENESS), _ONE_BLOCK, 0.0
    grey = cv2.cvtColor(_scale(picture, _GREY_SIDE), cv2.COLOR_BGR2GRAY)
    yield grey.astype(np.uint8, copy=False), _AUTOMATIC, _MIN_CONFIDENCE
    if sum(len(word.text) for word in words if word.confidence >= _MIN_CONFIDENCE) < _FEW_CHARACTERS:
        yield _to_ink(scaled.max(axis=2), *_BRIGHTNESS), _ONE_BLOCK, _MIN_CONFIDENCE


def _to_ink(channel: Page, low: int, high: int) -> Page:
    """Map values from `high` up to black, up to `low` to white, with soft edges between."""
    values = np.arange(256)
    table = 255 - np.clip((values - low) * 255 / (high - low), 0, 255)
    return table.astype(np.uint8)[channel]


def _scale(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    # Tesseract refuses pages with sides of a few pixels.
    factor = max(side / np.sqrt(height * width), 32 / min(height, width))
    # Bounds a panorama one pixel high.
    factor = min(factor, 8000 / max(height, width))
    size = max(3, round(width * factor)), max(3, round(height * factor))
    scaled = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC)
    return scaled.astype(np.uint8, copy=False)


def _overlaps(word: Word, others: Iterable[Word]) -> bool:
    return any(
        word.x < other.x + other.width
        and other.x < word.x + word.width
        and word.y < other.y + other.height
        and other.y < word.y + word.height
        for other in others
    )
