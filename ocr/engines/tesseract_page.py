"""Two ways to run Tesseract on a page: in this process (tesserocr), or one program per page (pytesseract).

tesserocr has no language packs: it uses the system's.
"""

import contextlib
import ctypes
import os
import re
import subprocess
import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pytesseract
from numpy.typing import NDArray
from PIL import Image

from memeloom.ocr.engines.contract import EngineMissing, ReadFailed, Word

Page: TypeAlias = NDArray[np.uint8]

_WORD_LEVEL, _COLUMNS = "5", 12
_LISTING = re.compile(r'in "(.+?)"')
_USUAL = ("/usr/share/tesseract-ocr/*/tessdata", "/usr/share/tessdata", "/usr/local/share/tessdata",
          "/opt/homebrew/share/tessdata")  # fmt: skip
_SEVERITY_NONE = 6  # Leptonica's L_SEVERITY_NONE
_RESOLUTION = 70  # pixels per inch: the program's default for pages that state none


class PageReader(Protocol):
    """Reads pages with Tesseract."""

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """Return the words of `page`, their boxes in fractions of it, their lines counted from 0.

        page: grey, shape (height, width). mode: Tesseract's page segmentation mode.
        deadline: in `time.monotonic()`. Raises ReadFailed (``timeout``, ``engine failed``).
        """
        ...


class TesseractApi:
    """Reads pages in this process; the model is loaded once."""

    def __init__(self, language: str) -> None:
        # Read when the library is loaded: more threads only slow it down.
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        tesserocr: Any = import_module("tesserocr")
        # Leptonica, below Tesseract, writes warnings about pages to stderr.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(tesserocr.tesserocr.__file__).setMsgSeverity(_SEVERITY_NONE)
        try:
            self._api: Any = tesserocr.PyTessBaseAPI(
                path=f"{packs_folder()}/", lang=language, oem=tesserocr.OEM.LSTM_ONLY
            )
        except RuntimeError as error:
            raise EngineMissing(f"ocr.engine: tesserocr cannot load {language!r}: {error}") from None
        self._api.SetVariable("debug_file", os.devnull)

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """Return the words of `page`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        milliseconds = int(1000 * (deadline - time.monotonic()))
        if milliseconds <= 0:
            raise ReadFailed("timeout", "before tesseract began")
        height, width = page.shape
        try:
            self._api.SetPageSegMode(mode)
            self._api.SetImageBytes(page.tobytes(), width, height, 1, width)
            self._api.SetSourceResolution(_RESOLUTION)
            # The deadline is checked between words; layout analysis is never interrupted.
            if not self._api.Recognize(milliseconds):
                late = time.monotonic() >= deadline
                raise ReadFailed(*(("timeout", "tesseract was stopped") if late else ("engine failed", "tesseract")))
            return parse_table(self._api.GetTSVText(0), width, height)
        finally:
            self._api.Clear()


class TesseractProgram:
    """Reads pages with the program `tesseract`, started once per page."""

    def __init__(self, language: str) -> None:
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        self._language = language

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """Return the words of `page`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        image = Image.fromarray(page)
        image.format = "PPM"  # pytesseract then passes it uncompressed
        try:
            table = pytesseract.image_to_data(
                image,
                lang=self._language,
                config=f"--oem 1 --psm {mode}",
                timeout=max(deadline - time.monotonic(), 1e-3),  # 0 would mean no deadline
            )
        except pytesseract.TesseractError as error:
            raise ReadFailed("engine failed", str(error.message)[:200]) from None
        except RuntimeError:
            raise ReadFailed("timeout", "tesseract was stopped") from None
        except OSError as error:
            raise EngineMissing(f"ocr.engine: cannot run tesseract: {error}") from error
        return parse_table(table, page.shape[1], page.shape[0])


def has_api() -> bool:
    """Return whether tesserocr is installed and language packs are found."""
    return find_spec("tesserocr") is not None and packs_folder() is not None


def check_api(language: str) -> None:
    """Check that the packs for `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    folder = packs_folder()
    if folder is None:
        raise EngineMissing(
            "ocr.engine: tesserocr has no language packs; install the package tesseract-ocr, or set TESSDATA_PREFIX"
        )
    packs = folder.rglob("*.traineddata")
    _check_packs(language, {pack.relative_to(folder).with_suffix("").as_posix() for pack in packs})


def check_program(language: str) -> None:
    """Check that the program and its packs for `language` are installed. Raises EngineMissing."""
    try:
        installed = set(pytesseract.get_languages(config=""))
    except OSError:
        raise EngineMissing(
            "ocr.engine: the program tesseract is not installed; install the package tesseract-ocr, or use rapidocr"
        ) from None
    _check_packs(language, installed)


@cache
def packs_folder() -> Path | None:
    """Return the folder of the language packs: TESSDATA_PREFIX, the one `tesseract` names, or a usual one."""
    named = os.environ.get("TESSDATA_PREFIX")
    if named:
        return Path(named)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listing = subprocess.run(["tesseract", "--list-langs"], capture_output=True, text=True, check=True, timeout=30)
        said = _LISTING.search(listing.stdout)
        if said and Path(said[1]).is_dir():
            return Path(said[1])
    found = [path for pattern in _USUAL for path in sorted(Path("/").glob(pattern[1:])) if path.is_dir()]
    return found[-1] if found else None


def parse_table(table: str, width: int, height: int) -> list[Word]:
    """Return the words of Tesseract's TSV table about a page of `width` x `height` pixels.

    Columns: level, page, block, paragraph, line, word, left, top, width, height, confidence, text.
    """
    lines: dict[tuple[str, ...], int] = {}
    words = []
    for row in table.splitlines():
        cells = row.split("\t")
        if len(cells) != _COLUMNS or cells[0] != _WORD_LEVEL:
            continue
        text, confidence = cells[11].strip(), float(cells[10])
        if text and confidence >= 0:
            line = lines.setdefault(tuple(cells[1:5]), len(lines))
            left, top, wide, high = (int(cell) for cell in cells[6:10])
            words.append(Word(text, left / width, top / height, wide / width, high / height, confidence, line))
    return words


def _check_packs(language: str, installed: set[str]) -> None:
    for name in language.split("+"):
        if name not in installed:
            raise EngineMissing(
                f"ocr.language: Tesseract has no language pack {name!r} (it has {', '.join(sorted(installed))}); "
                f"install the package tesseract-ocr-{name.replace('_', '-')}"
            )
