"""RapidOCR: small networks of our own and the shrunk recogniser of the package `rapidocr`, on one thread.

The package's own pipeline wastes time on padding, a direction classifier, too many pixels and floating point. Here
detection runs on a small copy (again on a larger one if little was found, or lines were too close), then each line is
recognised at its own width, its easy words by a small recogniser.

Detection: `rapidocr_lines.py`. The small recogniser: `rapidocr_small.py`. What a recogniser's output says:
`rapidocr_text.py`.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from memeloom.configs.extras import require
from memeloom.ocr.engines.contract import ReadFailed, Word
from memeloom.ocr.engines.rapidocr_lines import Corners, detect_lines
from memeloom.ocr.engines.rapidocr_small import SmallRecogniser, Span
from memeloom.ocr.engines.rapidocr_text import Piece, decode
from memeloom.ocr.models.networks import Networks, Picture, network_input, networks

# Square roots of the area given to the detector, tuned on half of the real memes.
SIDE, _LARGER_SIDE = 360, 736
# The first pass suffices with this many characters at this mean confidence.
_ENOUGH_CHARACTERS, _ENOUGH_CONFIDENCE = 12, 95.0

# Recognition: the line height of training, and the longest line in heights.
_HEIGHT, _MAX_ASPECT = 48, 40
# A line below this mean confidence is read again from the middle of its height; that must be sure, and so much better.
_DOUBTFUL, _MIDDLE, _SURE, _BETTER = 0.6, 0.6, 0.8, 0.1
# Height in pixels at which the detector looks again at a doubtful line, which may be several close ones.
_CLOSE_LINES = 96


class RapidOcr:
    """One detector and its recognisers on one thread.

    files: networks to load. seconds: deadline per picture. side: square root of the area given to the detector.
    """

    name = "rapidocr"

    def __init__(self, files: Networks, seconds: float, side: float = SIDE) -> None:
        self._seconds = seconds
        self._side = side
        self._characters = files.characters
        self._detector, self._recogniser = load_network(files.detector), load_network(files.recogniser)
        self._small = SmallRecogniser(load_network(files.small), files.characters) if files.small else None

    def read(self, picture: Picture) -> list[Word]:
        """Return the words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        try:
            words, are_close = self._read_at(picture, self._side, deadline)
            if _is_enough(words) and not are_close:
                return words
            larger, _ = self._read_at(picture, _LARGER_SIDE, deadline)
            return max(words, larger, key=_total_confidence)
        except RuntimeError as error:  # the base class of ONNX Runtime's errors
            raise ReadFailed("engine failed", str(error).strip().rpartition("\n")[2][:200]) from None

    def _read_at(self, picture: Picture, side: float, deadline: float) -> tuple[list[Word], bool]:
        """Return the words, and whether lines were so close that they were found as one: the side is small for them."""
        words: list[Word] = []
        are_close = False
        lines = detect_lines(self._detector, picture, side)
        numbers = itertools.count()
        for corners in lines:
            # A line takes milliseconds: checking between lines is enough.
            if time.monotonic() > deadline:
                raise ReadFailed("timeout", f"more than {self._seconds:g} s")
            pieces = self._read_corners(picture, corners)
            close = self._read_close_lines(picture, corners, pieces, lines)
            are_close |= bool(close)
            for each, read in close or [(corners, pieces)]:
                words += _to_words(read, each, picture, next(numbers))
        return words, are_close

    def _read_close_lines(
        self, picture: Picture, corners: Corners, pieces: Sequence[Piece], lines: Sequence[Corners]
    ) -> list[tuple[Corners, list[Piece]]]:
        """Return the lines that were found as one, doubtful one; none if it is one. lines: all that were found."""
        left, top = (max(0, math.floor(edge)) for edge in corners.min(axis=0))
        right, bottom = (math.ceil(edge) for edge in corners.max(axis=0))
        part = picture[top:bottom, left:right]
        if _confidence(pieces) >= _DOUBTFUL or part.shape[0] > part.shape[1]:
            return []
        side = _CLOSE_LINES * math.sqrt(part.shape[1] / part.shape[0])
        found = [each + np.array((left, top), np.float32) for each in detect_lines(self._detector, part, side)]
        read = [(each, self._read_corners(picture, each)) for each in found] if len(found) > 1 else []
        if not all(_confidence(each) >= _SURE for _, each in read):
            return []
        # Boxes reach into lines above and below.
        others = [line for line in lines if line is not corners]
        return [(each, words) for each, words in read if not any(_is_in(each, other) for other in others)]

    def _read_corners(self, picture: Picture, corners: Corners) -> list[Piece]:
        pieces = self._read_line(crop_line(picture, corners))
        if not pieces or _confidence(pieces) >= _DOUBTFUL:
            return pieces
        # How far boxes have to be grown depends on the font: among other lines, letters are small.
        middle = read_line(self._recogniser, self._characters, crop_line(picture, corners, _MIDDLE))
        better = _confidence(middle) > max(_SURE, _confidence(pieces) + _BETTER)
        return middle if better and _characters(middle) >= _characters(pieces) else pieces

    def _read_line(self, line: Picture) -> list[Piece]:
        if self._small is None:
            return read_line(self._recogniser, self._characters, line)
        pieces: list[Piece] = []
        for part in self._small.read(line):
            pieces += self._read_span(line, part) if isinstance(part, Span) else [part]
        return pieces

    def _read_span(self, line: Picture, span: Span) -> list[Piece]:
        start, end = (round(place * line.shape[1]) for place in span)
        pieces = read_line(self._recogniser, self._characters, line[:, start:end])
        share = span.end - span.start
        return [replace(p, start=span.start + share * p.start, end=span.start + share * p.end) for p in pieces]


def open_engine(language: str, seconds: float) -> RapidOcr:
    """Load the networks for `language`; `seconds` is the deadline per picture. Raises EngineMissing."""
    return RapidOcr(networks(language), seconds)


def check(language: str) -> None:
    """Check that the packages are installed, and build the networks before the workers start.

    Raises:
        MissingExtra: a package is missing.
        EngineMissing: the networks cannot be built.
    """
    require("ocr", "rapidocr", "onnxruntime", "onnx", "spellchecker")
    networks(language)


def read_line(network: Any, characters: str, line: Picture) -> list[Piece]:
    """Return the words of a BGR `line` from `crop_line`.

    network: the recogniser, an ``onnxruntime.InferenceSession``. characters: of its outputs after the first (blank).
    """
    (found,) = network.run(None, {network.get_inputs()[0].name: network_input(line)})
    return decode(found[0], characters)


def crop_line(picture: Picture, corners: Corners, share: float = 1.0) -> Picture:
    """Cut out the line between `corners`, clockwise from top left, upright and scaled to the recogniser's height.

    share: of the line's height, in the middle.
    """
    top, right = math.dist(corners[0], corners[1]), math.dist(corners[1], corners[2])
    if right > 1.5 * top:  # vertical text
        corners = np.roll(corners, 1, axis=0)
        top, right = right, top
    # The two left corners and the two right ones come closer.
    corners = share * corners + (1 - share) / 2 * (corners + corners[::-1])
    width = min(max(round(_HEIGHT * top / max(share * right, 1.0)), _HEIGHT // 2), _HEIGHT * _MAX_ASPECT)
    target = np.array([[0, 0], [width, 0], [width, _HEIGHT], [0, _HEIGHT]], np.float32)
    transform = cv2.getPerspectiveTransform(corners.astype(np.float32), target)
    size = width, _HEIGHT
    line = cv2.warpPerspective(picture, transform, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return line.astype(np.uint8, copy=False)


def load_network(path: Path) -> Any:
    """Return an ``onnxruntime.InferenceSession`` on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Two threads on one line are slower than one, and each worker has its own core.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # A remembered memory plan for every width of a line would take memory and save no time.
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _is_enough(words: Sequence[Word]) -> bool:
    characters = sum(len(word.text) for word in words)
    return characters >= _ENOUGH_CHARACTERS and _total_confidence(words) / characters >= _ENOUGH_CONFIDENCE


def _total_confidence(words: Sequence[Word]) -> float:
    return sum(len(word.text) * word.confidence for word in words)


def _confidence(pieces: Sequence[Piece]) -> float:
    """Return the mean over all characters, 0-1; 0 without any."""
    return sum(len(piece.text) * piece.confidence for piece in pieces) / max(_characters(pieces), 1)


def _is_in(corners: Corners, other: Corners) -> bool:
    """Return whether the middle of a line lies in another."""
    x, y = corners.mean(axis=0)
    return cv2.pointPolygonTest(other, (float(x), float(y)), measureDist=False) >= 0


def _characters(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _to_words(pieces: Sequence[Piece], corners: Corners, picture: Picture, line: int) -> list[Word]:
    """Place a line's words in the picture, each with the line's mean confidence: it separates noise best."""
    confidence = 100 * _confidence(pieces)
    height, width = picture.shape[:2]
    shares = np.clip(corners / (width, height), 0, 1)
    left, top = (float(value) for value in shares.min(axis=0))
    right, bottom = (float(value) for value in shares.max(axis=0))
    return [
        Word(
            piece.text,
            left + piece.start * (right - left), top, (piece.end - piece.start) * (right - left), bottom - top,
            min(confidence, 100.0), line, piece.gaps, piece.others,
        )
        for piece in pieces
    ]  # fmt: skip
