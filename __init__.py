"""memeloom: the meme web into training data, and the data into a model that captions images.

The names below are the Python interface for notebooks and scripts; `docs/python.md` shows it in use. Each is imported
on first access, so `import memeloom` stays light and a missing extra matters only where it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memeloom.catalog.catalog import Catalog as Catalog
    from memeloom.catalog.catalog import open_catalog as open_catalog
    from memeloom.configs.errors import MemeloomError as MemeloomError
    from memeloom.configs.load import load_config as load_config
    from memeloom.dataset.reader import DatasetReader as DatasetReader
    from memeloom.dataset.reader import read_dataset as read_dataset
    from memeloom.scrapers.crawl import crawl as crawl
    from memeloom.scrapers.missing.fetch import fetch as fetch
    from memeloom.serve.drawing.draw import draw_meme as draw_meme
    from memeloom.train.caption_model import CaptionModel as CaptionModel
    from memeloom.train.caption_model import load_model as load_model

_MODULES = {
    "CaptionModel": "memeloom.train.caption_model",
    "Catalog": "memeloom.catalog.catalog",
    "DatasetReader": "memeloom.dataset.reader",
    "MemeloomError": "memeloom.configs.errors",
    "crawl": "memeloom.scrapers.crawl",
    "draw_meme": "memeloom.serve.drawing.draw",
    "fetch": "memeloom.scrapers.missing.fetch",
    "load_config": "memeloom.configs.load",
    "load_model": "memeloom.train.caption_model",
    "open_catalog": "memeloom.catalog.catalog",
    "read_dataset": "memeloom.dataset.reader",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
