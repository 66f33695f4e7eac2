"""The OCR engines to compare: ours with their settings, and other packages with their defaults."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.load import load_config
from memeloom.ocr.engines.contract import Engine
from memeloom.ocr.engines.registry import open_engine
from memeloom.ocr.read import read_picture
from memeloom.ocr.words import WordModel

Picture: TypeAlias = NDArray[np.uint8]
Reader: TypeAlias = Callable[[Picture], str]

_SECONDS = 60.0


def readers(language: str) -> list[str]:
    """Return the names of the readers on this machine for ``eng``, or another that only Tesseract reads; ours last."""
    names = ["pytesseract as it comes", "tesseract, ours (program)"]
    if find_spec("tesserocr") is not None:
        names.append("tesseract, ours (tesserocr)")
    if language == "eng" and find_spec("rapidocr") is not None:
        names += ["rapidocr as it comes", "rapidocr, ours, floats", "rapidocr, ours, no words", "rapidocr, ours"]
    return names


def open_reader(name: str, language: str, words: WordModel | None) -> Reader:
    """Return a reader by name; ours work like the stage. words: for those that restore spaces."""
    if name == "pytesseract as it comes":
        return _plain_tesseract(language)
    if name == "rapidocr as it comes":
        return _plain_rapidocr()
    engine, settings = _engine(name, language), load_config(environment={}).ocr
    model = None if name.endswith("no words") else words
    return lambda picture: read_picture(picture, engine, settings, words=model).ocr.text


def _float_rapid() -> Engine:
    """Return our pipeline with the package's original networks."""
    import onnx

    from memeloom.ocr.engines.rapidocr import RapidOcr
    from memeloom.ocr.models.networks import DETECTOR, RECOGNISER, Networks, letters_of, packaged

    recogniser = packaged(RECOGNISER)
    return RapidOcr(Networks(packaged(DETECTOR), recogniser, letters_of(onnx.load(recogniser))), _SECONDS)


def _engine(name: str, language: str) -> Engine:
    from memeloom.ocr.engines.tesseract import Tesseract
    from memeloom.ocr.engines.tesseract_page import TesseractApi, TesseractProgram

    match name:
        case "tesseract, ours (program)":
            return Tesseract(language, _SECONDS, TesseractProgram(language))
        case "tesseract, ours (tesserocr)":
            return Tesseract(language, _SECONDS, TesseractApi(language))
        case "rapidocr, ours, floats":
            return _float_rapid()
        case _:
            return open_engine(load_config(environment={}).ocr)


def _plain_tesseract(language: str) -> Reader:
    import pytesseract

    os.environ["OMP_THREAD_LIMIT"] = "1"
    return lambda picture: str(pytesseract.image_to_string(picture[:, :, ::-1], lang=language))


def _plain_rapidocr() -> Reader:
    from rapidocr import RapidOCR

    engine: Any = RapidOCR(
        params={
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
    return lambda picture: "\n".join(engine(picture).txts or ())
