"""The network files: the characters of a language, where the files are, and building one of them once.

The small networks are ours, trained by `ocr/small`, and lie here. The recogniser is built from the package's into the
user's cache (`$MEMELOOM_CACHE`, else `~/.cache/memeloom`), named by a digest of everything that goes into it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.configs.extras import require
from memeloom.configs.locks import exclusive
from memeloom.configs.outputs import cache_folder
from memeloom.ocr.engines.contract import EngineMissing

if TYPE_CHECKING:
    import onnx

Picture: TypeAlias = NDArray[np.uint8]

DETECTOR, RECOGNISER = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"
_SMALL_DETECTOR = Path(__file__).with_name("small_detector.onnx")
# It takes accents for plain letters.
_SMALL_RECOGNISER, _SMALL_LANGUAGE = Path(__file__).with_name("small_recogniser.onnx"), "eng"

_ASCII = "".join(map(chr, range(0x21, 0x7F)))
# Typographic characters of captions. The space comes last.
_TYPOGRAPHIC = "’‘“”…–—•€£°"
_LETTERS = {
    "eng": "", "deu": "äöüßÄÖÜ", "fra": "àâæçéèêëîïôœùûüÿÀÂÆÇÉÈÊËÎÏÔŒÙÛÜ«»", "spa": "áéíñóúüÁÉÍÑÓÚÜ¿",
    "ita": "àèéìòùÀÈÉÌÒÙ", "por": "àáâãçéêíóôõúÀÁÂÃÇÉÊÍÓÔÕÚ", "nld": "áéëïóöüÉË", "swe": "åäöÅÄÖé", "dan": "åæøÅÆØé",
    "nor": "åæøÅÆØé", "fin": "äöåÄÖÅ", "pol": "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ",
}  # fmt: skip
_BUILD_SECONDS, _WAIT_SECONDS = 300.0, 330.0


@dataclass(frozen=True, slots=True)
class Networks:
    """Paths of the networks. characters: the meaning of the recognisers' outputs from the second on.

    small: recogniser of easy words, if the language has one.
    """

    detector: Path
    recogniser: Path
    characters: str
    small: Path | None = None


def network_input(picture: Picture) -> NDArray[np.float32]:
    """Convert a BGR picture to the networks' input: (1, 3, height, width), -1 to 1."""
    return np.asarray(cv2.dnn.blobFromImage(picture, 1 / 127.5, mean=(127.5, 127.5, 127.5)), np.float32)


def characters_of(language: str) -> str:
    """Return the characters recognised for a language or several (``eng+deu``). Raises EngineMissing if unknown."""
    letters = ""
    for name in language.split("+"):
        if name not in _LETTERS:
            raise EngineMissing(
                f"ocr.language: rapidocr reads {', '.join(_LETTERS)} here, not {name!r}; use ocr.engine: tesseract"
            )
        letters += "".join(letter for letter in _LETTERS[name] if letter not in letters)
    return f"{_ASCII}{_TYPOGRAPHIC}{letters} "


def letters_of(model: "onnx.ModelProto") -> str:
    """Return the characters of one of the package's recognisers, in the order of its outputs."""
    stated = next(item.value for item in model.metadata_props if item.key == "character")
    return "".join([*stated.splitlines(), " "])


def networks(language: str) -> Networks:
    """Return the networks for a language; the first call on a machine builds the recogniser (half a minute).

    Raises:
        MissingExtra: a package is not installed.
        EngineMissing: the package's networks have other names, or building failed.
    """
    characters = characters_of(language)
    source = packaged(RECOGNISER)
    folder = cache_folder() / "ocr" / _name(source, characters)
    if not folder.is_dir():
        _build(source, folder, characters)
    small = _SMALL_RECOGNISER if language == _SMALL_LANGUAGE else None
    return Networks(_SMALL_DETECTOR, folder / RECOGNISER, characters, small)


def packaged(name: str) -> Path:
    """Return one of the package's own networks. Raises MissingExtra, EngineMissing."""
    require("ocr", "rapidocr")
    spec = find_spec("rapidocr")
    path = Path(spec.origin if spec and spec.origin else "").parent / "models" / name
    if not path.is_file():
        raise EngineMissing(f"ocr.engine: the installed rapidocr has no {name}; install the version of the lock")
    return path


def _name(source: Path, characters: str) -> str:
    """Digest all that the recogniser depends on: the package, the characters, our code and its libraries."""
    digest = hashlib.sha256()
    recipe = sorted(Path(__file__).parent.glob("*.py"))
    for path in (source, *recipe):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for part in (characters, *(version(package) for package in ("onnx", "onnxruntime", "pillow", "numpy"))):
        digest.update(f"{part}\0".encode())
    return digest.hexdigest()[:16]


def _build(source: Path, folder: Path, characters: str) -> None:
    """Build the recogniser beside `folder`, then rename it; one process builds, others wait."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        busy = f"ocr.engine: another process has been building rapidocr's networks for {_WAIT_SECONDS:g} s"
        with exclusive(folder, busy, wait_seconds=_WAIT_SECONDS):
            if folder.is_dir():
                return
            for stale in folder.parent.glob(f".{folder.name}-*"):
                shutil.rmtree(stale, ignore_errors=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            _run_build(source, unfinished, characters)
            unfinished.rename(folder)
    except OSError as error:
        raise EngineMissing(
            f"ocr.engine: rapidocr's networks cannot be written to {folder.parent}: {error.strerror}; "
            "set MEMELOOM_CACHE"
        ) from error


def _run_build(source: Path, target: Path, characters: str) -> None:
    command = [sys.executable, "-m", "memeloom.ocr.models.build", str(source), str(target), characters]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise EngineMissing(f"ocr.engine: building rapidocr's networks took more than {_BUILD_SECONDS:g} s") from None
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2][:300]
        raise EngineMissing(f"ocr.engine: rapidocr's networks cannot be built: {last}")
