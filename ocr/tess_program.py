"""Tesseract as a program that is started for each page, through pytesseract."""

import os
import time

import pytesseract
from PIL import Image

from memeloom.ocr.engine import EngineMissing, ReadFailed, Word
from memeloom.ocr.tess_table import Page, table_words


class TesseractProgram:
    """Reads pages with the program `tesseract`."""

    def __init__(self, language: str) -> None:
        # Read by Tesseract when it starts: its threads only get in each other's way.
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        self._language = language

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """The words of `page`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        image = Image.fromarray(page)
        image.format = "PPM"  # how pytesseract hands it over: without compressing it
        try:
            # No time left would mean no deadline.
            table = pytesseract.image_to_data(
                image,
                lang=self._language,
                config=f"--oem 1 --psm {mode}",
                timeout=max(deadline - time.monotonic(), 1e-3),
            )
        except pytesseract.TesseractError as error:
            raise ReadFailed("engine failed", str(error.message)[:200]) from None
        except RuntimeError:
            raise ReadFailed("timeout", "tesseract was stopped") from None
        except OSError as error:
            raise EngineMissing(f"ocr.engine: cannot run tesseract: {error}") from error
        return table_words(table, page.shape[1], page.shape[0])


def check_program(language: str) -> None:
    """See that the program and its pack of `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    try:
        installed = set(pytesseract.get_languages(config=""))
    except OSError:
        raise EngineMissing(
            "ocr.engine: the program tesseract is not installed; install the package tesseract-ocr, or use rapidocr"
        ) from None
    missing = [name for name in language.split("+") if name not in installed]
    if missing:
        raise missing_pack(missing[0], installed)


def missing_pack(name: str, installed: set[str]) -> EngineMissing:
    """The error that says which pack to install."""
    return EngineMissing(
        f"ocr.language: Tesseract has no language pack {name!r} (it has {', '.join(sorted(installed))}); "
        f"install the package tesseract-ocr-{name.replace('_', '-')}"
    )
