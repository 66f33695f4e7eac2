"""Tesseract through pytesseract, on pictures made into what it reads best: black text on white.

Most captions are white with a dark outline, or black on white. Marking the pixels that are white
shows Tesseract both as clean shapes and hides most of the photo. A second look takes only the
whitest, which frees letters from a light ground, a third bright pixels of any colour, and a last
one, if little was found, the plain grey picture; each fills in where those before it found nothing.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import cv2
import numpy as np
import pytesseract
from numpy.typing import NDArray
from PIL import Image

from ocr.engine import EngineMissing, ReadFailed, Word

Channel = NDArray[np.uint8]

# Measured on the tuning half of the real memes. Square roots of the area that is read; the least
# value of a white pixel's darkest channel (and of a bright pixel's brightest), and of the whitest.
_SIDE, _GREY_SIDE, _WHITE, _WHITEST = 1100, 600, 200, 235
# How sure a word must be that fills in, and how many sure characters are so few that grey is tried.
_SURE, _SURE_IN_GREY, _FEW_CHARACTERS = 70.0, 80.0, 30


class Tesseract:
    """Runs the program `tesseract`, three or four times a picture."""

    name = "tesseract"

    def __init__(self, language: str, seconds: float) -> None:
        # Read by Tesseract when it starts: its threads only get in each other's way.
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        self._seconds = seconds
        self._language = language

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        """The words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        words: list[Word] = []
        for look, least in _looks(picture, words):
            table = self._run(look, deadline)
            height, width = look.shape
            found = _words(table, width, height, first_line=1 + max((word.line for word in words), default=-1))
            words += [word for word in found if word.confidence >= least and not _touches(word, words)]
        return words

    def _run(self, page: Channel, deadline: float) -> Mapping[str, list[Any]]:
        image = Image.fromarray(page)
        image.format = "PPM"  # how pytesseract hands it over: without compressing it
        try:
            # No time left would mean no deadline.
            return pytesseract.image_to_data(  # type: ignore[no-any-return]
                image, lang=self._language, config="--oem 1 --psm 3",
                timeout=max(deadline - time.monotonic(), 1e-3), output_type=pytesseract.Output.DICT,
            )  # fmt: skip
        except pytesseract.TesseractError as error:
            raise ReadFailed("engine failed", str(error.message)[:200]) from None
        except RuntimeError:
            raise ReadFailed("timeout", f"more than {self._seconds:g} s") from None
        except OSError as error:
            raise EngineMissing(f"ocr.engine: cannot run tesseract: {error}") from error


def _looks(picture: NDArray[np.uint8], words: list[Word]) -> Iterator[tuple[Channel, float]]:
    """Pages to read, and how sure their words must be; `words` grows with what was found in the pages before."""
    scaled = _scale(picture, _SIDE)
    darkest = scaled.min(axis=2)
    yield _mark(darkest, _WHITE), 0.0
    yield _mark(darkest, _WHITEST), _SURE
    yield _mark(scaled.max(axis=2), _WHITE), _SURE
    if sum(len(word.text) for word in words if word.confidence >= _SURE) < _FEW_CHARACTERS:
        yield cv2.cvtColor(_scale(picture, _GREY_SIDE), cv2.COLOR_BGR2GRAY).astype(np.uint8, copy=False), _SURE_IN_GREY


def _mark(channel: Channel, least: int) -> Channel:
    """Pixels of at least that value as ink on paper."""
    return np.where(channel >= least, 0, 255).astype(np.uint8)


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


def _scale(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    height, width = picture.shape[:2]
    # At least a few pixels a side: Tesseract refuses less.
    factor = max(side / np.sqrt(height * width), 32 / min(height, width))
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
