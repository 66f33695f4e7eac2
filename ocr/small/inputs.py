"""The command line of both trainers, and the files that it names."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from memeloom.catalog.errors import BadImage
from memeloom.catalog.images import decode_image
from memeloom.ocr.models.networks import Picture, characters_of
from memeloom.ocr.small.lines import find_fonts
from memeloom.ocr.small.text import Texts

LANGUAGE = "eng"
_PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a trainer learns from. pictures, memes: files. minutes: of training. out: the network, an ONNX file."""

    texts: Texts
    fonts: Sequence[Path]
    pictures: Sequence[Path]
    memes: Sequence[Path]
    minutes: float
    out: Path


def parse(description: str, minutes: float, chance: Random) -> Inputs:
    """Read the command line; exit with a message if a file is missing. minutes: of training, by default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="text file of captions, one a line")
    parser.add_argument("--fonts", type=Path, required=True, help="folder of TrueType and OpenType fonts")
    parser.add_argument("--pictures", type=Path, required=True, help="folder of pictures to write on")
    parser.add_argument("--memes", type=Path, required=True, help="folder of memes, read by the package's networks")
    parser.add_argument("--minutes", type=float, default=minutes, help="time of training")
    parser.add_argument("--out", type=Path, required=True, help="the network, an ONNX file")
    given = parser.parse_args()
    for option, path, is_there in (
        ("--captions", given.captions, Path.is_file), ("--fonts", given.fonts, Path.is_dir),
        ("--pictures", given.pictures, Path.is_dir), ("--memes", given.memes, Path.is_dir),
        ("--out", given.out.parent, Path.is_dir),
    ):  # fmt: skip
        if not is_there(path):
            parser.error(f"{option}: no such {'file' if is_there is Path.is_file else 'directory'}: {path}")
    captions = [line for line in given.captions.read_text(encoding="utf-8").splitlines() if line.strip()]
    try:
        texts = Texts(captions, characters_of(LANGUAGE), chance)
    except ValueError as error:
        parser.error(f"--captions: {given.captions}: {error}")
    fonts, pictures, memes = find_fonts(given.fonts), _pictures(given.pictures), _pictures(given.memes)
    for option, found, what in (
        ("--fonts", fonts, "font with all letters and signs"), ("--pictures", pictures, "picture"),
        ("--memes", memes, "picture"),
    ):  # fmt: skip
        if not found:
            parser.error(f"{option}: no {what} below {getattr(given, option[2:])}")
    return Inputs(texts, fonts, pictures, memes, given.minutes, given.out)


def read_picture_file(path: Path) -> Picture:
    """Return a picture, BGR. Raises SystemExit if it cannot be read."""
    try:
        return decode_image(path.read_bytes())
    except BadImage as error:
        raise SystemExit(f"{path}: {error}") from None


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURE_ENDINGS)
