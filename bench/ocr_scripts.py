"""Captions in other scripts for drawn memes, from `ocr_scripts.yaml`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).with_name("ocr_scripts.yaml")


@dataclass(frozen=True)
class Script:
    """Captions in one language and the font families that have its letters, by kind.

    language: Tesseract's name. captions: the parts of each.
    """

    language: str
    families: Mapping[str, Sequence[str]]
    captions: Sequence[Sequence[str]]


def script_of(language: str) -> Script:
    """Return the captions and fonts of ``hin`` or ``rus``."""
    content: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))[language]
    return Script(language, content["fonts"], content["captions"])
