"""RapidOCR: the PP-OCR networks of the package `rapidocr`, made smaller (`ocr/models`), on one thread of ONNX Runtime.

The package's own pipeline spends most of its time on padding, on a direction classifier that memes do not need, on
detection in more pixels than help, and on arithmetic in floating point. Here the two networks are called one by one:
detection on a small copy, again on a larger one if little was found, then each line by itself at its own width.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memeloom.ocr.engine import ReadFailed, Word
from memeloom.ocr.models.files import Networks
from memeloom.ocr.rapid_find import Corners, Picture, find_lines
from memeloom.ocr.rapid_read import Piece, read_line

# Square roots of the area that detection sees, chosen on the tuning half of the real memes.
_SIDE, _LARGER_SIDE = 340, 736
# What a first look must have found: so many characters, so surely.
_ENOUGH_CHARACTERS, _SURE = 12, 95.0


class Rapid:
    """One detector and one recogniser, loaded, on one thread.

    files: what to load. seconds: the deadline of one picture. side: the square root of the area that detection sees.
    """

    name = "rapidocr"

    def __init__(self, files: Networks, seconds: float, side: float = _SIDE) -> None:
        self._seconds = seconds
        self._side = side
        self._characters = files.characters
        self._detector, self._recogniser = _load(files.detector), _load(files.recogniser)

    def read(self, picture: Picture) -> list[Word]:
        """The words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        try:
            words = self._read_at(picture, self._side, deadline)
            if _is_enough(words):
                return words
            return max(words, self._read_at(picture, _LARGER_SIDE, deadline), key=_certainty)
        except RuntimeError as error:  # what ONNX Runtime raises is one
            raise ReadFailed("engine failed", str(error).strip().rpartition("\n")[2][:200]) from None

    def _read_at(self, picture: Picture, side: float, deadline: float) -> list[Word]:
        words: list[Word] = []
        for number, corners in enumerate(find_lines(self._detector, picture, side)):
            # A line is short work; between two of them there is time to look at the clock.
            if time.monotonic() > deadline:
                raise ReadFailed("timeout", f"more than {self._seconds:g} s")
            pieces = read_line(self._recogniser, self._characters, picture, corners)
            words += _placed(pieces, corners, picture, number)
        return words


def _load(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Two threads on one line are slower than one, and every worker has a processor of its own.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _is_enough(words: Sequence[Word]) -> bool:
    characters = sum(len(word.text) for word in words)
    return characters >= _ENOUGH_CHARACTERS and _certainty(words) / characters >= _SURE


def _certainty(words: Sequence[Word]) -> float:
    return sum(len(word.text) * word.confidence for word in words)


def _placed(pieces: Sequence[Piece], corners: Corners, picture: Picture, line: int) -> list[Word]:
    """The words of one line, each in the part of the line's box that it takes, all as sure as the line is.

    That tells noise from text better than a word's own characters do.
    """
    characters = sum(len(piece.text) for piece in pieces)
    confidence = 100 * sum(len(piece.text) * piece.confidence for piece in pieces) / max(characters, 1)
    height, width = picture.shape[:2]
    shares = corners / (width, height)
    left, top = (float(value) for value in shares.min(axis=0))
    right, bottom = (float(value) for value in shares.max(axis=0))
    return [
        Word(
            piece.text,
            left + piece.start * (right - left), top, (piece.end - piece.start) * (right - left), bottom - top,
            min(confidence, 100.0), line,
        )
        for piece in pieces
    ]  # fmt: skip
