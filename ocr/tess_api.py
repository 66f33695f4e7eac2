"""Tesseract in this process, through the package tesserocr: nothing is started, and the model is loaded once.

The package brings Tesseract's library, but no language packs: those of the system's tesseract are used.
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
from typing import Any

from memeloom.ocr.engine import EngineMissing, ReadFailed, Word
from memeloom.ocr.tess_program import missing_pack
from memeloom.ocr.tess_table import Page, table_words

_LISTING = re.compile(r'in "(.+?)"')
_USUAL = ("/usr/share/tesseract-ocr/*/tessdata", "/usr/share/tessdata", "/usr/local/share/tessdata",
          "/opt/homebrew/share/tessdata")  # fmt: skip
_SILENT = 6  # Leptonica's L_SEVERITY_NONE
_PIXELS_AN_INCH = 70  # what the program takes a page for that does not say


class TesseractApi:
    """Reads pages with Tesseract's library."""

    def __init__(self, language: str) -> None:
        # As for the program; read when the library is loaded.
        os.environ.setdefault("OMP_THREAD_LIMIT", "1")
        tesserocr: Any = import_module("tesserocr")
        # The image library below Tesseract writes what it thinks of a page to stderr.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(tesserocr.tesserocr.__file__).setMsgSeverity(_SILENT)
        try:
            self._api: Any = tesserocr.PyTessBaseAPI(
                path=f"{packs_folder()}/", lang=language, oem=tesserocr.OEM.LSTM_ONLY
            )
        except RuntimeError as error:
            raise EngineMissing(f"ocr.engine: tesserocr cannot load {language!r}: {error}") from None
        self._api.SetVariable("debug_file", os.devnull)

    def __call__(self, page: Page, mode: int, deadline: float) -> list[Word]:
        """The words of `page`. Raises ReadFailed (``timeout``, ``engine failed``)."""
        milliseconds = int(1000 * (deadline - time.monotonic()))
        if milliseconds <= 0:
            raise ReadFailed("timeout", "before tesseract began")
        height, width = page.shape
        try:
            self._api.SetPageSegMode(mode)
            self._api.SetImageBytes(page.tobytes(), width, height, 1, width)
            self._api.SetSourceResolution(_PIXELS_AN_INCH)
            # Looked at between words: finding the lines of a page is never cut short.
            if not self._api.Recognize(milliseconds):
                late = time.monotonic() >= deadline
                raise ReadFailed(*(("timeout", "tesseract was stopped") if late else ("engine failed", "tesseract")))
            return table_words(self._api.GetTSVText(0), width, height)
        finally:
            self._api.Clear()


def has_api() -> bool:
    """Whether tesserocr is installed, and the language packs are found."""
    return find_spec("tesserocr") is not None and packs_folder() is not None


def check_api(language: str) -> None:
    """See that the packs of `language` (``eng``, ``eng+deu``) are installed. Raises EngineMissing."""
    folder = packs_folder()
    if folder is None:
        raise EngineMissing(
            "ocr.engine: tesserocr has no language packs; install the package tesseract-ocr, or set TESSDATA_PREFIX"
        )
    installed = {file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.traineddata")}
    for name in language.split("+"):
        if name not in installed:
            raise missing_pack(name, installed)


@cache
def packs_folder() -> Path | None:
    """The folder of the language packs: TESSDATA_PREFIX, or what the program `tesseract` says, or a usual one."""
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
