"""Pictures that lie on their side, stand on their head or are mirrored: found by how well they are read, and turned.

An upright picture is read with confidence. Only if it is not, or if most of its lines run from top to bottom, it is
read again in other positions, so ordinary memes cost nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.records import OcrBox, Place, Turn
from memeloom.ocr.engines.contract import Engine, Word
from memeloom.ocr.words import WordModel, caption_words

Picture = NDArray[np.uint8]
B = TypeVar("B", Word, OcrBox)

# Mean confidence over letters. Of 120 upright memes none was read with less than 94, turned the wrong way none with
# more than 94 and most with about 65.
_SURE: Final = 90.0
# Below, a reading is doubtful even if its words are known. Upright memes that mix Hindi and English are read with 88.
_DOUBTFUL: Final = 75.0
# A position that is read better by this much, and in which twice as many letters are in known words, is the right one.
_BETTER: Final = 5.0
_KNOWN: Final = 2.0
# Fewer letters do not tell.
_LETTERS: Final = 5
_SHORT_WORD: Final = 3

_TURNS: Final[dict[Turn, Callable[[Picture], Picture]]] = {
    "90": lambda picture: np.asarray(cv2.rotate(picture, cv2.ROTATE_90_CLOCKWISE), np.uint8),
    "180": lambda picture: np.asarray(cv2.rotate(picture, cv2.ROTATE_180), np.uint8),
    "270": lambda picture: np.asarray(cv2.rotate(picture, cv2.ROTATE_90_COUNTERCLOCKWISE), np.uint8),
    "mirrored": lambda picture: np.ascontiguousarray(picture[:, ::-1]),
}
# Where a box of the turned picture lies in the picture as it is stored: left, top, width, height in fractions.
_BACK: Final[dict[Turn, Callable[[float, float, float, float], Place]]] = {
    "90": lambda x, y, width, height: (y, 1 - x - width, height, width),
    "180": lambda x, y, width, height: (1 - x - width, 1 - y - height, width, height),
    "270": lambda x, y, width, height: (1 - y - height, x, height, width),
    "mirrored": lambda x, y, width, height: (1 - x - width, y, width, height),
}


def read_upright(
    picture: Picture, engine: Engine, seconds: float, model: WordModel | None
) -> tuple[list[Word], Turn | None]:
    """Read a BGR picture in the position in which it makes sense.

    seconds: deadline of the picture, which is not read again once that could exceed it. model: known words, if any.

    Returns:
        The words in the turned picture, and how it was turned: degrees clockwise, or mirrored; None is not at all.

    Raises:
        ReadFailed: the engine failed.
    """
    start = time.monotonic()
    words = engine.read(picture)
    lying = _is_lying(words, picture)
    if len(_text(words)) < _LETTERS or not (lying or _is_unsure(words, model)):
        return words, None
    others: tuple[Turn, ...] = ("90", "270") if lying else ("180", "mirrored", "90", "270")
    once = time.monotonic() - start
    best, turned = words, None
    for turn in others:
        if time.monotonic() - start + once > seconds:
            break
        found = engine.read(_TURNS[turn](picture))
        if _reads_better(found, best, model, lying):
            best, turned = found, turn
        if turned and _confidence(best) >= _SURE:
            break
    return best, turned


def is_nonsense(words: Sequence[Word], model: WordModel) -> bool:
    """Return whether these words were read without confidence, and most of them are none."""
    return len(_text(words)) >= _LETTERS and _confidence(words) < _DOUBTFUL and _has_few_words(words, model)


def turn_back(box: B, turn: Turn | None) -> B:
    """Return a word or text box of the turned picture, placed in the picture as it is stored."""
    if turn is None:
        return box
    back = _BACK[turn]
    x, y, width, height = back(box.x, box.y, box.width, box.height)
    if isinstance(box, Word):
        return replace(box, x=x, y=y, width=width, height=height)
    lines = tuple(back(*line) for line in box.lines)
    return box.model_copy(update={"x": x, "y": y, "width": width, "height": height, "lines": lines})


def _confidence(words: Sequence[Word]) -> float:
    """Return the mean confidence over all characters, 0-100; 0 without any."""
    characters = sum(len(word.text) for word in words)
    return sum(len(word.text) * word.confidence for word in words) / characters if characters else 0.0


def _is_unsure(words: Sequence[Word], model: WordModel | None) -> bool:
    if _confidence(words) < _DOUBTFUL:
        return True
    return model is not None and _confidence(words) < _SURE and _has_few_words(words, model)


def _has_few_words(words: Sequence[Word], model: WordModel) -> bool:
    return 2 * _known(words, model) < len(_text(words))


def _reads_better(found: Sequence[Word], best: Sequence[Word], model: WordModel | None, lying: bool) -> bool:
    # The lines of a picture on its side may have been read already, only in the wrong order.
    if lying and _confidence(found) >= _SURE and len(_text(found)) >= len(_text(best)) / _KNOWN:
        return True
    if _confidence(found) < _confidence(best) + _BETTER:
        return False
    return model is None or _known(found, model) >= max(_KNOWN * _known(best, model), _LETTERS)


def _is_lying(words: Sequence[Word], picture: Picture) -> bool:
    """Return whether most letters are in lines of several that are higher than wide."""
    height, width = picture.shape[:2]
    lines: dict[int, list[Word]] = {}
    for word in words:
        lines.setdefault(word.line, []).append(word)
    letters = upright = 0
    for line in lines.values():
        count = len(_text(line))
        across = (max(word.x + word.width for word in line) - min(word.x for word in line)) * width
        down = (max(word.y + word.height for word in line) - min(word.y for word in line)) * height
        letters += count
        upright += count if count < _SHORT_WORD or across >= down else 0
    return 2 * upright < letters


def _text(words: Sequence[Word]) -> str:
    return "".join(character for word in words for character in word.text if character.isalnum())


def _known(words: Sequence[Word], model: WordModel) -> int:
    """Return the number of letters in known words of three letters or more."""
    found = (each for word in words for each in caption_words(word.text))
    return sum(len(each) for each in found if len(each) >= _SHORT_WORD and not each.isdigit() and each in model)
