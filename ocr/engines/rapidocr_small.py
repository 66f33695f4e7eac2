"""A small recogniser in front of RapidOCR's: reads the easy lines in a tenth of the time.

`ocr/models/small_recogniser.onnx`: 955,000 parameters in 8 bits, convolutions only, trained by `ocr/small`. It sees
little more than a letter and its neighbours, so it knows no words; a line counts as read only if it is sure of each
character and all its words are common English ones. The large recogniser reads the others.
"""

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from memeloom.ocr.engines.rapidocr_text import Piece, decode
from memeloom.ocr.models.networks import Picture, network_input
from memeloom.ocr.words import caption_words, common_words

HEIGHT, STRIDE = 32, 4  # pixels: of its lines, and of a column of its output
_MAX_ASPECT = 24  # the longest line in heights
# Least probability of each character of a common word, and of a number or a sign. Chosen on a third of the tuning half
# of the real memes that the network was not trained on.
_SURE, _SURE_SIGN = 0.35, 0.6
# The confidence of an accepted word: the large recogniser gives this to words that it reads as well.
_CONFIDENCE = 0.99


class SmallRecogniser:
    """network: an ``onnxruntime.InferenceSession``. characters: of its outputs after the first (blank)."""

    def __init__(self, network: Any, characters: str) -> None:
        self._network = network
        self._characters = characters
        self._common = frozenset(common_words())

    def read(self, line: Picture) -> list[Piece] | None:
        """Return the words of an upright BGR line of any height; None if the large recogniser has to read it."""
        height, width = line.shape[:2]
        if width > _MAX_ASPECT * height:
            return None
        size = max(round(width * HEIGHT / height / STRIDE), 2) * STRIDE, HEIGHT
        small = np.asarray(cv2.resize(line, size, interpolation=cv2.INTER_AREA), np.uint8)
        (found,) = self._network.run(None, {self._network.get_inputs()[0].name: network_input(small)})
        pieces = decode(found[0], self._characters, with_others=False)
        if not pieces or not all(map(self._is_sure, pieces)):
            return None
        return [replace(piece, confidence=max(piece.confidence, _CONFIDENCE), gaps=()) for piece in pieces]

    def _is_sure(self, piece: Piece) -> bool:
        words = caption_words(piece.text)
        least = _SURE_SIGN if not words or any(map(str.isdecimal, words)) else _SURE
        return piece.least >= least and all(map(self._is_known, words))

    def _is_known(self, word: str) -> bool:
        return word.isdecimal() or (word in self._common and (len(word) > 1 or word in "ai"))
