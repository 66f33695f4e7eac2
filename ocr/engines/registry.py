"""The engines by name. To add one: a module with `check(language)` and `open_engine(language, seconds)`, and a line."""

from importlib import import_module
from typing import Any

from memeloom.configs.schema import Ocr
from memeloom.ocr.engines.contract import Engine

# Imported on use: an engine's libraries are optional and slow to load.
_MODULES = {"rapidocr": "memeloom.ocr.engines.rapidocr", "tesseract": "memeloom.ocr.engines.tesseract"}


def open_engine(settings: Ocr) -> Engine:
    """Load the engine named by `settings.engine`. Raises EngineMissing."""
    check_engine(settings)
    engine: Engine = _module(settings).open_engine(settings.language, settings.image_seconds)
    return engine


def check_engine(settings: Ocr) -> None:
    """Prepare the engine and check, without loading it, that it works here. Raises EngineMissing."""
    _module(settings).check(settings.language)


def _module(settings: Ocr) -> Any:
    return import_module(_MODULES[settings.engine])
