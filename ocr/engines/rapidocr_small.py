"""A small recogniser in front of RapidOCR's: reads easy words in a tenth of the time.

`ocr/models/small_recogniser.onnx`: 955,000 parameters in 8 bits, convolutions only, trained by `ocr/small`. It sees
little more than a letter and its neighbours, so it knows no words; a word counts as read only if it is sure of each
character, of the spaces around it, and it is a common English one. The large recogniser reads the others.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.engines.rapidocr_text import Piece, Probabilities, decode
from memeloom.ocr.models.networks import Picture, network_input
from memeloom.ocr.words import caption_words, common_words

HEIGHT, STRIDE = 32, 4  # pixels: of its lines, and of a column of its output
_MAX_ASPECT = 24  # the longest line in heights
# Least probability of each character of a common word, and of a number or a sign. Chosen on a third of the tuning half
# of the real memes that the network was not trained on.
_SURE, _SURE_SIGN = 0.35, 0.6
# Least probability of the spaces around a word in a line with doubtful ones: else it may be half of one of those.
_SURE_SPACE = 0.95
# Spans narrower than this, in heights, take in the words beside them: of "1 4" alone the large recogniser made "41".
_NARROW = 4

Flags: TypeAlias = NDArray[np.bool_]


class Span(NamedTuple):
    """A part of a line that the large recogniser has to read; 0-1."""

    start: float
    end: float


_WHOLE = Span(0.0, 1.0)


class SmallRecogniser:
    """network: an ``onnxruntime.InferenceSession``. characters: of its outputs after the first (blank)."""

    def __init__(self, network: Any, characters: str) -> None:
        self._network = network
        self._characters = characters
        self._common = frozenset(common_words())

    def read(self, line: Picture) -> list[Piece | Span]:
        """Return the words of an upright BGR line of any height, and the spans left to the large recogniser."""
        height, width = line.shape[:2]
        if width > _MAX_ASPECT * height:
            return [_WHOLE]
        size = max(round(width * HEIGHT / height / STRIDE), 2) * STRIDE, HEIGHT
        small = np.asarray(cv2.resize(line, size, interpolation=cv2.INTER_AREA), np.uint8)
        (found,) = self._network.run(None, {self._network.get_inputs()[0].name: network_input(small)})
        pieces = decode(found[0], self._characters, with_others=False)
        sure = np.array([self._is_sure(piece) for piece in pieces])
        if sure.all():
            return [_accepted(piece) for piece in pieces] or [_WHOLE]
        spaces = found[0][:, self._characters.rindex(" ") + 1]
        return _without_doubtful(pieces, sure, spaces, width / height)

    def _is_sure(self, piece: Piece) -> bool:
        words = caption_words(piece.text)
        least = _SURE_SIGN if not words or any(map(str.isdecimal, words)) else _SURE
        return piece.least >= least and all(map(self._is_known, words))

    def _is_known(self, word: str) -> bool:
        return word.isdecimal() or (word in self._common and (len(word) > 1 or word in "ai"))


def _without_doubtful(pieces: list[Piece], sure: Flags, spaces: Probabilities, aspect: float) -> list[Piece | Span]:
    """Replace words that are not `sure` by spans.

    spaces: probability of one in each row of the network's output. aspect: width of the line in heights.
    """
    between = [_space_between(*pair, spaces) for pair in pairwise(pieces)]
    edges = [0.0, *(place for place, _ in between), 1.0]
    certain = np.array([True, *(probability >= _SURE_SPACE for _, probability in between), True])
    left = ~(sure & certain[:-1] & certain[1:])
    for first, end in _runs(left):
        if (edges[end] - edges[first]) * aspect < _NARROW:
            left[max(first - 1, 0) : end + 1] = True
    parts: list[Piece | Span] = []
    done = 0
    for first, end in _runs(left):
        parts += [*map(_accepted, pieces[done:first]), Span(edges[first], edges[end])]
        done = end
    return [*parts, *map(_accepted, pieces[done:])]


def _runs(flags: Flags) -> list[tuple[int, int]]:
    """Return the start and end of each run of True."""
    changes = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end)) for start, end in changes.reshape(-1, 2)]


def _space_between(left: Piece, right: Piece, spaces: Probabilities) -> tuple[float, float]:
    """Return where the likeliest space between two words lies, 0-1, and its probability."""
    first, last = round(left.end * len(spaces)) - 1, round(right.start * len(spaces))
    place = first + int(spaces[first : last + 1].argmax())
    return (place + 0.5) / len(spaces), float(spaces[place])


def _accepted(piece: Piece) -> Piece:
    return replace(piece, gaps=())  # a word model need not split it
