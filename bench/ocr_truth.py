"""The text of the real memes: their transcripts, with listed corrections of obvious errors."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CORRECTIONS = Path(__file__).with_name("ocr_corrections.yaml")
MIXED_CORRECTIONS = Path(__file__).with_name("ocr_corrections_mixed.yaml")


@dataclass(frozen=True)
class Truth:
    """text: the caption. scene: other text in the picture, which may be read or not."""

    text: str
    scene: str = ""


class Corrections:
    """The corrections of a file; its head explains them."""

    def __init__(self, path: Path = CORRECTIONS) -> None:
        content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self._name = path.name
        self._marks = " ".join(content.pop("marks"))
        self.files: dict[str, dict[str, Any]] = content

    def apply(self, file: str, transcript: str) -> Truth:
        """Return the truth for `file`, named as in the manifest.

        Raises:
            ValueError: a correction does not match the transcript.
        """
        entry = self.files.get(file, {})
        text: str = entry.get("text", transcript)
        for wrong, right in entry.get("change", {}).items():
            if wrong not in text:
                raise ValueError(f"{self._name}: {file}: the transcript has no {wrong!r}")
            text = text.replace(wrong, right)
        if "add" in entry:
            text = f"{text.rstrip()}\n{entry['add']}"
        return Truth(text, f"{entry.get('scene', '')} {self._marks}")


def forgive(reading: Sequence[str], truth: Truth, split: Callable[[str], list[str]]) -> list[str]:
    """Return `reading` without words that occur only in the scene.

    A word that the caption also has stays as often as there, the first ones. split: the tokenizer of `reading`.
    """
    expected, allowed = Counter(split(truth.text)), Counter(split(truth.scene))
    kept = []
    for word in reading:
        if expected[word] > 0:
            expected[word] -= 1
        elif allowed[word] > 0:
            allowed[word] -= 1
            continue
        kept.append(word)
    return kept
