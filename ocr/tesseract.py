"""Tesseract, on pictures made into what it reads best: black text on white.

Most captions are white with a dark outline, or black on white. Showing only how white a pixel is gives
Tesseract the first as clean shapes and hides most of the photo. A second look is the plain grey picture,
and a third, if little was found, shows how bright a pixel is in any colour; each fills in where those
before it found nothing.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.engine import Word
from memeloom.ocr.tess_api import TesseractApi, check_api, has_api
from memeloom.ocr.tess_program import TesseractProgram, check_program
from memeloom.ocr.tess_table import Page, PageReader

# Measured on the tuning halves of the real and of the drawn memes.
# Square roots of the area that is read.
_SIDE, _GREY_SIDE = 800, 600
# Values of a pixel's darkest channel between which it turns from paper to ink, and of its brightest one.
_WHITENESS, _BRIGHTNESS = (160, 250), (180, 250)
# Tesseract's page segmentation: one block of lines, whatever stands between them; or whatever layout it finds.
_ONE_BLOCK, _ANY_LAYOUT = 6, 3
# How sure a word must be that fills in, and how many sure characters are so few that the last look is taken.
_SURE, _FEW_CHARACTERS = 80.0, 60


class Tesseract:
    """Shows each picture to Tesseract two or three times: in this process if tesserocr is there, else as a program."""

    name = "tesseract"

    def __init__(self, language: str, seconds: float, reader: PageReader | None = None) -> None:
        """reader: instead of the best that this machine has. Raises EngineMissing."""
        self._seconds = seconds
        self._read_page = reader or (TesseractApi(language) if has_api() else TesseractProgram(language))

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        """The words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        words: list[Word] = []
        for page, mode, least in _looks(picture, words):
            found = self._read_page(page, mode, deadline)
            first = 1 + max((word.line for word in words), default=-1)
            words += [
                replace(word, line=first + word.line)
                for word in found
                if word.confidence >= least and not _touches(word, words)
            ]
        return words


def check_tesseract(language: str) -> None:
    """See that Tesseract and its pack of `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    (check_api if has_api() else check_program)(language)


def _looks(picture: NDArray[np.uint8], words: list[Word]) -> Iterator[tuple[Page, int, float]]:
    """Pages, how to look for lines on them, how sure their words must be; `words` grows with what was found so far."""
    scaled = _scale(picture, _SIDE)
    yield _ink(scaled.min(axis=2), *_WHITENESS), _ONE_BLOCK, 0.0
    grey = cv2.cvtColor(_scale(picture, _GREY_SIDE), cv2.COLOR_BGR2GRAY)
    yield grey.astype(np.uint8, copy=False), _ANY_LAYOUT, _SURE
    if sum(len(word.text) for word in words if word.confidence >= _SURE) < _FEW_CHARACTERS:
        yield _ink(scaled.max(axis=2), *_BRIGHTNESS), _ONE_BLOCK, _SURE


def _ink(channel: Page, low: int, high: int) -> Page:
    """Values from `high` up as ink, those to `low` as paper, and soft edges between."""
    values = np.arange(256)
    table = 255 - np.clip((values - low) * 255 / (high - low), 0, 255)
    return table.astype(np.uint8)[channel]


def _scale(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    # At least a few pixels a side: Tesseract refuses less.
    factor = max(side / np.sqrt(height * width), 32 / min(height, width))
    # A panorama one pixel high would grow without end.
    factor = min(factor, 8000 / max(height, width))
    size = max(3, round(width * factor)), max(3, round(height * factor))
    scaled = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC)
    return scaled.astype(np.uint8, copy=False)


def _touches(word: Word, others: Iterable[Word]) -> bool:
    return any(
        word.x < other.x + other.width
        and other.x < word.x + word.width
        and word.y < other.y + other.height
        and other.y < word.y + word.height
        for other in others
    )
