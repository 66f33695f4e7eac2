"""Pictures with known text: real memes with transcripts, and drawn ones."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.ocr_drawn import Half, drawn_memes
from bench.ocr_scripts import Script
from bench.ocr_truth import MIXED_CORRECTIONS, Corrections, Truth

# Vowel signs of Devanagari are neither letters nor digits.
_LETTER = r"(?:[^\W_]|[\u0900-\u097f])"
_WORD = re.compile(rf"{_LETTER}+(?:'{_LETTER}+)*")


@dataclass(frozen=True)
class Case:
    """A picture. truth: corrected; transcript: original."""

    data: bytes
    truth: Truth
    transcript: str


def real(data: Path) -> list[Case]:
    """Return the English memes of the reporting half, in the order of the hashes that split them."""
    return _cases(data, Corrections(), english=True)


def mixed(data: Path) -> list[Case]:
    """Return the memes of the reporting half in Hindi and English, in Latin letters."""
    return _cases(data, Corrections(MIXED_CORRECTIONS), english=False)


def drawn(data: Path, count: int, script: Script | None = None, half: Half = "report") -> list[Case]:
    """Draw captions, or those of `script`, on templates of `half`. The site's mark in a corner may be read or not."""
    drawings = drawn_memes(data, half, count, script)
    memes = [(meme, "\n".join(text for text in meme.texts if text)) for meme in drawings]
    return [Case(meme.data, Truth(text, "imgflip.com"), text) for meme, text in memes]


def catalog_captions(data: Path, but: list[Case]) -> Iterator[str]:
    """Yield the captions of a catalog, without those on `but`."""
    known = {" ".join(split(case.transcript)) for case in but}
    with gzip.open(data / "imgflip_captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            caption = "\n".join(json.loads(line)["boxes"])
            if " ".join(split(caption)) not in known:
                yield caption


def split(text: str) -> list[str]:
    """Return the words of `text`, case-folded, without punctuation."""
    return _WORD.findall(text.casefold().replace("’", "'").replace("‘", "'"))


def _cases(data: Path, corrections: Corrections, *, english: bool) -> list[Case]:
    return [
        Case((data / "real_memes" / row["file"]).read_bytes(), corrections.apply(row["file"], row["text"]), row["text"])
        for row in _rows(data)
        if (row["lang"] == "en") == english and _digest(row) % 2
    ]


def _rows(data: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads((data / "real_memes" / "manifest.json").read_text(encoding="utf-8"))
    return sorted(rows, key=_digest)


def _digest(row: dict[str, str]) -> int:
    return int(hashlib.sha256(row["file"].encode()).hexdigest(), 16)
