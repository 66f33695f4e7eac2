"""The contract of an OCR engine: a picture in, words with places and confidences out."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Ocr


@dataclass(frozen=True, slots=True)
class Word:
    """One word as an engine read it.

    x, y, width, height: its upright box in fractions of the picture.
    confidence: 0-100, as sure as the engine says it is; engines differ in what that is worth.
    line: the same number for all words of one line, which stand in reading order.
    """

    text: str
    x: float
    y: float
    width: float
    height: float
    confidence: float
    line: int


class Engine(Protocol):
    """Reads pictures, one at a time. Costly to open: once a process."""

    name: str

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        """The words of `picture`, a BGR array of shape (height, width, 3). Raises ReadFailed."""
        ...


class EngineMissing(MemeloomError):
    """A program, package or language pack that an engine needs is not there; the text says what to install."""


class ReadFailed(MemeloomError):
    """An engine could not read one picture; `reason` is a short fixed phrase that is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def open_engine(settings: Ocr) -> Engine:
    """The engine that `settings.engine` names, loaded.

    Raises:
        EngineMissing: it cannot work on this machine.
    """
    check_engine(settings)
    if settings.engine == "rapidocr":
        from memeloom.ocr.models.files import networks
        from memeloom.ocr.rapid import Rapid

        return Rapid(networks(settings.language), settings.image_seconds)
    from memeloom.ocr.tesseract import Tesseract

    return Tesseract(settings.language, settings.image_seconds)


def check_engine(settings: Ocr) -> None:
    """See, without loading it, that the engine can work on this machine, and make what it needs.

    Raises:
        EngineMissing: it cannot; the text says what to install.
    """
    if settings.engine == "rapidocr":
        for package in ("rapidocr", "onnxruntime", "onnx"):
            if find_spec(package) is None:
                raise EngineMissing(
                    f"ocr.engine: rapidocr needs the Python package {package}; install memeloom[ocr], or use tesseract"
                )
        from memeloom.ocr.models.files import networks

        # Made now, if nobody has made them before, so that workers need not wait for each other.
        networks(settings.language)
        return
    from memeloom.ocr.tesseract import check_tesseract

    check_tesseract(settings.language)
