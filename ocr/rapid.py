"""RapidOCR: the PP-OCR models of the package `rapidocr`, run by ONNX Runtime on one thread.

The package's own pipeline spends most of its time on padding, on a direction classifier that memes
do not need, and on detection in more pixels than help. Here the two models are called one by one:
detection on a small copy, again on a larger one if little was found, then each line by itself.
"""

import math
import time
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ocr.engine import ReadFailed, Word

Picture = NDArray[np.uint8]
Corners = NDArray[np.float32]

# Square roots of the area that detection sees, measured on the tuning half of the real memes.
_SIDE, _LARGER_SIDE = 340, 736
_ENOUGH_CHARACTERS, _SURE = 6, 93.0
_LINE_HEIGHT, _LONGEST_LINE = 48, 40


class Rapid:
    """One detector and one recogniser, loaded, on one thread."""

    name = "rapidocr"

    def __init__(self, seconds: float) -> None:
        from rapidocr import RapidOCR
        from rapidocr.inference_engine.onnxruntime.main import ONNXRuntimeError

        self._failure = ONNXRuntimeError
        self._seconds = seconds
        self._models: Any = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.text_score": 0.0,
                "Global.use_cls": False,
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
                "Det.limit_type": "max",
                "Det.limit_side_len": 1 << 20,
                "Rec.rec_batch_num": 1,
                "Rec.rec_img_shape": [3, _LINE_HEIGHT, _LINE_HEIGHT // 2],
            }
        )

    def read(self, picture: Picture) -> list[Word]:
        """The words of `picture`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        deadline = time.monotonic() + self._seconds
        try:
            words = self._read_at(picture, _SIDE, deadline)
            if _is_enough(words):
                return words
            return max(words, self._read_at(picture, _LARGER_SIDE, deadline), key=_certainty)
        except self._failure as error:
            raise ReadFailed("engine failed", str(error).strip().rpartition("\n")[2][:200]) from None

    def _read_at(self, picture: Picture, side: int, deadline: float) -> list[Word]:
        words: list[Word] = []
        for line, corners in enumerate(self._find_lines(picture, side)):
            # A line is short work; between two of them there is time to look at the clock.
            if time.monotonic() > deadline:
                raise ReadFailed("timeout", f"more than {self._seconds:g} s")
            found = self._models(_cut_line(picture, corners), use_det=False, use_rec=True)
            if found.txts:
                height, width = picture.shape[:2]
                place = np.divide(corners, (width, height), dtype=np.float32)
                words += _split_line(found.txts[0], 100 * float(found.scores[0]), place, line)
        return words

    def _find_lines(self, picture: Picture, side: int) -> list[Corners]:
        """Corners of each line, clockwise from its top left, in pixels of `picture`; top to bottom."""
        height, width = picture.shape[:2]
        scale = min(side / math.sqrt(height * width), 4.0)
        size = tuple(max(32, round(edge * scale / 32) * 32) for edge in (width, height))
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        found = self._models(small, use_det=True, use_rec=False).boxes
        if found is None:
            return []
        stretch = np.array([width / size[0], height / size[1]], np.float32)
        return [np.asarray(corners, np.float32) * stretch for corners in found]


def _is_enough(words: list[Word]) -> bool:
    characters = sum(len(word.text) for word in words)
    return characters >= _ENOUGH_CHARACTERS and _certainty(words) / characters >= _SURE


def _certainty(words: list[Word]) -> float:
    return sum(len(word.text) * word.confidence for word in words)


def _cut_line(picture: Picture, corners: Corners) -> Picture:
    """The line between `corners`, turned upright and scaled to the height that the recogniser takes."""
    top, right = math.dist(corners[0], corners[1]), math.dist(corners[1], corners[2])
    if right > 1.5 * top:
        corners = np.roll(corners, 1, axis=0)
        top, right = right, top
    width = min(max(round(_LINE_HEIGHT * top / max(right, 1.0)), _LINE_HEIGHT // 2), _LINE_HEIGHT * _LONGEST_LINE)
    target = np.array([[0, 0], [width, 0], [width, _LINE_HEIGHT], [0, _LINE_HEIGHT]], np.float32)
    transform = cv2.getPerspectiveTransform(corners, target)
    size = width, _LINE_HEIGHT
    line = cv2.warpPerspective(picture, transform, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return line.astype(np.uint8, copy=False)


def _split_line(text: str, confidence: float, corners: Corners, line: int) -> list[Word]:
    """The words of a line; each takes the share of its box that its characters take of the line."""
    left, top = (float(value) for value in corners.min(axis=0))
    right, bottom = (float(value) for value in corners.max(axis=0))
    step = (right - left) / max(len(text), 1)
    words, start = [], 0
    for piece in text.split(" "):
        if piece:
            words.append(Word(piece, left + start * step, top, len(piece) * step, bottom - top, confidence, line))
        start += len(piece) + 1
    return words
