"""Where the text of a picture is, for the small detector to learn from.

The lines of a real picture are those that the package's detector finds at any of several sizes and the recogniser
reads with confidence: a line that one size misses, another shows. Lines that are read without confidence count neither
as text nor as background.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import cv2

from memeloom.ocr.engines.rapidocr import crop_line, load_network, read_line
from memeloom.ocr.engines.rapidocr_lines import Corners, detect_lines
from memeloom.ocr.models.networks import DETECTOR, Networks, Picture, packaged

_SIDES = (340, 420, 512, 736)  # square roots of the areas searched
SHRINKAGE = 1.6  # of lines in the map of the package's detector: `growth` undoes it
# Mean probability of the characters from which a line counts as text, and below which as background.
_SURE, _DOUBTFUL = 0.85, 0.35
_COVERED = 0.3  # share of a line that another one of more letters has, if it is left out


@dataclass(frozen=True, slots=True)
class Labelled:
    """A BGR picture. lines: corners of its lines, clockwise; doubtful: of what may be lines."""

    picture: Picture
    lines: Sequence[Corners]
    doubtful: Sequence[Corners] = ()


class Labeller:
    """Finds lines with the package's detector, and reads them."""

    def __init__(self, files: Networks) -> None:
        self._detector, self._recogniser = load_network(packaged(DETECTOR)), load_network(files.recogniser)
        self._characters = files.characters

    def label(self, picture: Picture) -> Labelled:
        """Return the picture with the lines that are read."""
        lines = chain.from_iterable(detect_lines(self._detector, picture, side, SHRINKAGE) for side in _SIDES)
        found = [(self._letters(crop_line(picture, corners)), corners) for corners in lines]
        kept: dict[bool, list[Corners]] = {True: [], False: []}
        for (letters, confidence), corners in sorted(found, key=lambda each: -each[0][0] * each[0][1] ** 4):
            shared = sum(_shared(corners, each) for each in chain(*kept.values()))
            if confidence >= _DOUBTFUL and letters and shared < _COVERED * cv2.contourArea(corners):
                kept[confidence >= _SURE].append(corners)
        return Labelled(picture, kept[True], kept[False])

    def _letters(self, line: Picture) -> tuple[int, float]:
        """Return how many characters are read, and their mean probability."""
        pieces = read_line(self._recogniser, self._characters, line)
        letters = sum(len(piece.text) for piece in pieces)
        return letters, sum(len(piece.text) * piece.confidence for piece in pieces) / max(letters, 1)


def _shared(a: Corners, b: Corners) -> float:
    return float(cv2.intersectConvexConvex(a, b)[0])
