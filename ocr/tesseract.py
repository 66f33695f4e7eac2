"""Tesseract through pytesseract, on pictures made into what it reads best: black text on white.

Most captions are white with a dark outline, or black on white. Marking the pixels that are white
shows Tesseract both as clean shapes and hides most of the photo. A second reading marks bright
pixels of any colour and fills in where the first found nothing.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import cv2
import numpy as np
import pytesseract
from numpy.typing import NDArray
from PIL import Image

from ocr.engine import EngineMissing, ReadFailed, Word

# Measured on the tuning half of the real memes: the square root of the area, the least value of a
# white pixel's darkest channel (or a bright pixel's brightest), and how sure a word must be to fill in.
_SIDE, _BRIGHT, _SURE = 1100, 200, 70.0


class Tesseract:
    """Runs the program `tesseract`, twice a picture, each time with a deadline."""

    name = "tesseract"

    def __init__(self, language: str, seconds: float) -> None:
        # Read by Tesseract when it starts: its threads only get in each other's way.
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        self._seconds = seconds
        self._language = language

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        """The words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        scaled = _scale(picture)
        words = self._read_mask(scaled.min(axis=2), first_line=0)
        next_line = 1 + max((word.line for word in words), default=-1)
        more = self._read_mask(scaled.max(axis=2), first_line=next_line)
        return words + [word for word in more if word.confidence >= _SURE and not _touches(word, words)]

    def _read_mask(self, channel: NDArray[np.uint8], first_line: int) -> list[Word]:
        page = Image.fromarray(np.where(channel >= _BRIGHT, 0, 255).astype(np.uint8))
        page.format = "PPM"  # how pytesseract hands it over: without compressing it
        try:
            table = pytesseract.image_to_data(
                page, lang=self._language, config="--oem 1 --psm 3",
                timeout=self._seconds / 2, output_type=pytesseract.Output.DICT,
            )  # fmt: skip
        except pytesseract.TesseractError as error:
            raise ReadFailed("engine failed", str(error.message)[:200]) from None
        except RuntimeError:
            raise ReadFailed("timeout", f"more than {self._seconds:g} s") from None
        return _words(table, page.width, page.height, first_line)


def check_tesseract(language: str) -> None:
    """See that the program and its pack of `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    try:
        installed = set(pytesseract.get_languages(config=""))
    except OSError:
        raise EngineMissing(
            "ocr.engine: the program tesseract is not installed; install the package tesseract-ocr, or use rapidocr"
        ) from None
    for name in language.split("+"):
        if name not in installed:
            raise EngineMissing(
                f"ocr.language: Tesseract has no language pack {name!r} (it has {', '.join(sorted(installed))}); "
                f"install the package tesseract-ocr-{name.replace('_', '-')}"
            )


def _scale(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    # At least a few pixels a side: Tesseract refuses less.
    factor = max(_SIDE / np.sqrt(height * width), 32 / min(height, width))
    # A panorama one pixel high would grow without end.
    factor = min(factor, 8000 / max(height, width))
    size = max(3, round(width * factor)), max(3, round(height * factor))
    scaled = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC)
    return scaled.astype(np.uint8, copy=False)


def _words(table: Mapping[str, list[Any]], width: int, height: int, first_line: int) -> list[Word]:
    lines: dict[tuple[int, int, int], int] = {}
    words = []
    for row, cell in enumerate(table["text"]):
        text, confidence = str(cell).strip(), float(table["conf"][row])
        if text and confidence >= 0:
            place = table["block_num"][row], table["par_num"][row], table["line_num"][row]
            line = lines.setdefault(place, first_line + len(lines))
            left, top = table["left"][row] / width, table["top"][row] / height
            box = left, top, table["width"][row] / width, table["height"][row] / height
            words.append(Word(text, *box, confidence, line))
    return words


def _touches(word: Word, others: Iterable[Word]) -> bool:
    return any(
        word.x < other.x + other.width
        and other.x < word.x + word.width
        and word.y < other.y + other.height
        and other.y < word.y + word.height
        for other in others
    )
