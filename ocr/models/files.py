"""Where the networks are, and which characters a language needs.

What the package brings is looked up by name; what is made of it lies in the cache of the user
(`$MEMELOOM_CACHE`, else `~/.cache/memeloom`) under a name that changes with everything that goes into it.
"""

import fcntl
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
from typing import TYPE_CHECKING

from memeloom.ocr import rapid_find
from memeloom.ocr.engine import EngineMissing

if TYPE_CHECKING:
    import onnx

DETECTOR, RECOGNISER = "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"

_ASCII = "".join(map(chr, range(0x21, 0x7F)))
# Typographic marks of captions. The space comes last.
_MARKS = "’‘“”…–—•€£°"
_LETTERS = {
    "eng": "", "deu": "äöüßÄÖÜ", "fra": "àâæçéèêëîïôœùûüÿÀÂÆÇÉÈÊËÎÏÔŒÙÛÜ«»", "spa": "áéíñóúüÁÉÍÑÓÚÜ¿",
    "ita": "àèéìòùÀÈÉÌÒÙ", "por": "àáâãçéêíóôõúÀÁÂÃÇÉÊÍÓÔÕÚ", "nld": "áéëïóöüÉË", "swe": "åäöÅÄÖé", "dan": "åæøÅÆØé",
    "nor": "åæøÅÆØé", "fin": "äöåÄÖÅ", "pol": "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ",
}  # fmt: skip
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Networks:
    """Files of the detector and the recogniser. characters: what the recogniser's outputs from the second on mean."""

    detector: Path
    recogniser: Path
    characters: str


def characters_of(language: str) -> str:
    """What is told apart in a language, or in several (``eng+deu``). Raises EngineMissing for one that is not known."""
    letters = ""
    for name in language.split("+"):
        if name not in _LETTERS:
            raise EngineMissing(
                f"ocr.language: rapidocr reads {', '.join(_LETTERS)} here, not {name!r}; use ocr.engine: tesseract"
            )
        letters += "".join(letter for letter in _LETTERS[name] if letter not in letters)
    return f"{_ASCII}{_MARKS}{letters} "


def letters_of(model: "onnx.ModelProto") -> str:
    """The characters that a recogniser of the package tells apart, in the order of its outputs."""
    stated = next(item.value for item in model.metadata_props if item.key == "character")
    return "".join([*stated.splitlines(), " "])


def networks(language: str) -> Networks:
    """The networks for a language, made now if nobody has made them before, which takes half a minute.

    Raises:
        EngineMissing: a package is not installed, its networks are others than we know, or they cannot be made.
    """
    characters = characters_of(language)
    source = packaged()
    folder = cache_folder() / "ocr" / _name(source, characters)
    made = Networks(folder / DETECTOR, folder / RECOGNISER, characters)
    if not folder.is_dir():
        _make(source, folder, characters)
    return made


def cache_folder() -> Path:
    """Where things lie that can be made again."""
    return Path(os.environ.get("MEMELOOM_CACHE") or Path.home() / ".cache" / "memeloom")


def packaged() -> Path:
    """The folder of the package's own networks. Raises EngineMissing."""
    found = find_spec("rapidocr")
    if found is None or found.origin is None:
        raise EngineMissing("ocr.engine: rapidocr needs the Python package rapidocr; install memeloom[ocr]")
    folder = Path(found.origin).parent / "models"
    for name in (DETECTOR, RECOGNISER):
        if not (folder / name).is_file():
            raise EngineMissing(f"ocr.engine: the installed rapidocr has no {name}; install the version of the lock")
    return folder


def _name(source: Path, characters: str) -> str:
    """Changes with the package's networks, the characters, the way they are made, and what makes them."""
    digest = hashlib.sha256()
    recipe = [*sorted(Path(__file__).parent.glob("*.py")), Path(rapid_find.__file__)]
    for path in (source / DETECTOR, source / RECOGNISER, *recipe):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for part in (characters, *(version(package) for package in ("onnx", "onnxruntime", "pillow", "numpy"))):
        digest.update(f"{part}\0".encode())
    return digest.hexdigest()[:16]


def _make(source: Path, folder: Path, characters: str) -> None:
    """Make the networks beside `folder`, and give them its name when they are whole; one process makes, others wait."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return
            for stale in folder.parent.glob(f".{folder.name}-*"):
                shutil.rmtree(stale, ignore_errors=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            _run(source, unfinished, characters)
            unfinished.rename(folder)
    except OSError as error:
        raise EngineMissing(
            f"ocr.engine: rapidocr's networks cannot be kept in {folder.parent}: {error.strerror}; set MEMELOOM_CACHE"
        ) from error


def _run(source: Path, target: Path, characters: str) -> None:
    command = [sys.executable, "-m", "memeloom.ocr.models.build", str(source), str(target), characters]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise EngineMissing(f"ocr.engine: making rapidocr's networks took more than {_SECONDS:g} s") from None
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2][:300]
        raise EngineMissing(f"ocr.engine: rapidocr's networks cannot be made: {last}")
