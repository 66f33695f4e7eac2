"""What a line says: the PP-OCR recogniser, and words out of the characters that it sees from left to right.

It looks at every eighth pixel of a line and names a character or none (connectionist temporal classification, Graves
et al. 2006). So each character has a place, and each word its own box.
"""

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.rapid_find import Corners, Picture, planes

# The height that the recogniser was trained on, and the longest line in heights.
_HEIGHT, _LONGEST = 48, 40
# A space that the recogniser nearly saw, between two characters, is one.
_LIKELY_SPACE = 0.1
_BLANK = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of a line. start, end: where in the line, 0 to 1. confidence: 0 to 1, the mean of its characters."""

    text: str
    start: float
    end: float
    confidence: float


def read_line(network: Any, characters: str, picture: Picture, corners: Corners) -> list[Piece]:
    """The words of the line between `corners`, clockwise from its top left, of a BGR `picture`.

    network: the recogniser, an ``onnxruntime.InferenceSession``.
    characters: what its outputs stand for, from the second on; the first is none.
    """
    line = cut_line(picture, corners)
    (found,) = network.run(None, {network.get_inputs()[0].name: planes(line)})
    return _words(found[0], characters)


def cut_line(picture: Picture, corners: Corners) -> Picture:
    """The line between `corners`, turned upright and scaled to the height that the recogniser takes."""
    top, right = math.dist(corners[0], corners[1]), math.dist(corners[1], corners[2])
    if right > 1.5 * top:
        # A line that stands on its end.
        corners = np.roll(corners, 1, axis=0)
        top, right = right, top
    width = min(max(round(_HEIGHT * top / max(right, 1.0)), _HEIGHT // 2), _HEIGHT * _LONGEST)
    target = np.array([[0, 0], [width, 0], [width, _HEIGHT], [0, _HEIGHT]], np.float32)
    transform = cv2.getPerspectiveTransform(corners, target)
    size = width, _HEIGHT
    line = cv2.warpPerspective(picture, transform, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return line.astype(np.uint8, copy=False)


def _words(chances: NDArray[np.float32], characters: str) -> list[Piece]:
    """The words in the recogniser's answer, of shape (steps, 1 + characters): how likely each character is where."""
    best = chances.argmax(axis=1)
    fresh = np.flatnonzero((best != _BLANK) & np.concatenate(([True], best[1:] != best[:-1])))
    space = characters.rindex(" ") + 1
    words: list[list[int]] = [[]]
    for step in fresh:
        if best[step] == space:
            words.append([])
            continue
        if words[-1] and chances[words[-1][-1] + 1 : step, space].max(initial=0.0) > _LIKELY_SPACE:
            words.append([])
        words[-1].append(int(step))
    steps = len(best)
    return [
        Piece(
            "".join(characters[best[step] - 1] for step in word),
            start=word[0] / steps,
            end=(word[-1] + 1) / steps,
            confidence=float(chances[word, best[word]].mean()),
        )
        for word in words
        if word
    ]
