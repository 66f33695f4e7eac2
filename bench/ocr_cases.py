"""Pictures with known text: real memes with transcripts, and drawn ones."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from bench.ocr_drawn import drawn_memes
from bench.ocr_truth import Corrections, Truth
from memeloom.catalog.records import TemplateBox

Half: TypeAlias = Literal["tune", "report"]

# Vowel signs of Devanagari are neither letters nor digits.
_LETTER = r"(?:[^\W_]|[\u0900-\u097f])"
_WORD = re.compile(rf"{_LETTER}+(?:'{_LETTER}+)*")


@dataclass(frozen=True)
class Case:
    """A picture. truth: corrected; transcript: original; boxes: those of its template, if known."""

    data: bytes
    truth: Truth
    transcript: str
    boxes: tuple[TemplateBox, ...] = ()


def real(data: Path, half: Half) -> list[Case]:
    """Return the English memes of one half, split by hash of the file name, in hash order."""
    corrections = Corrections()
    rows = [row for row in _rows(data) if row["lang"] == "en"]
    return [
        Case((data / "real_memes" / row["file"]).read_bytes(), corrections.apply(row["file"], row["text"]), row["text"])
        for row in _by_hash(rows)
        if _digest(row) % 2 == (half == "report")
    ]


def mixed(data: Path) -> list[Case]:
    """Return the memes in Hindi and English, in Latin letters. Some words of the transcripts are masked with ``#``."""
    rows = [row for row in _rows(data) if row["lang"] != "en"]
    return [
        Case((data / "real_memes" / row["file"]).read_bytes(), Truth(row["text"]), row["text"])
        for row in _by_hash(rows)
    ]


def drawn(data: Path, half: Half, count: int, script: Literal["latin", "devanagari"] = "latin") -> list[Case]:
    """Draw captions on templates, different ones in each half. The site's mark in a corner may be read or not."""
    cases = []
    for meme in drawn_memes(data, half, count, script=script):
        text = "\n".join(text for text in meme.texts if text)
        cases.append(Case(meme.data, Truth(text, "imgflip.com"), text, meme.boxes))
    return cases


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


def _rows(data: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads((data / "real_memes" / "manifest.json").read_text(encoding="utf-8"))
    return rows


def _by_hash(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(rows, key=_digest)


def _digest(row: dict[str, str]) -> int:
    return int(hashlib.sha256(row["file"].encode()).hexdigest(), 16)
