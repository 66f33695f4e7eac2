"""Marks over a picture that was read: numbered text boxes, and words coloured by confidence."""

from collections.abc import Iterable

from memeloom.catalog.records import OcrBox
from memeloom.ocr.engines.contract import Word
from memeloom.report.overlay import Mark

# The least confidence of each band. Engines are not comparable; the bands separate the good from the doubtful.
BANDS = {"sure": 95, "fair": 85, "doubtful": 70, "poor": 0}


def band(confidence: float) -> str:
    """Return the band of a confidence, which is the CSS class of its colour."""
    return next(name for name, least in BANDS.items() if confidence >= least or not least)


def legend() -> list[tuple[str, str]]:
    """Return the bands with their ranges in words."""
    entries: list[tuple[str, str]] = []
    above = 0
    for name, least in BANDS.items():
        span = f"below {above}" if not least else f"{least} to {above}" if above else f"{least} and more"
        entries.append((name, span))
        above = least
    return entries


def box_marks(boxes: Iterable[OcrBox]) -> list[Mark]:
    """Return the text boxes as marks, numbered in order."""
    return [
        Mark(
            x=box.x, y=box.y, width=box.width, height=box.height, number=number,
            look=band(box.confidence) if box.text else "empty",
            tip=f"{number}: {box.text} ({box.confidence:.1f})" if box.text else f"{number}: no text",
        )
        for number, box in enumerate(boxes, start=1)
    ]  # fmt: skip


def word_mark(word: Word, reason: str | None) -> Mark:
    """Return a word as a mark. reason: why it was removed; None if it was kept."""
    return Mark(
        x=word.x, y=word.y, width=word.width, height=word.height, struck=reason is not None,
        look="removed" if reason is not None else band(word.confidence),
        tip=f"{word.text} ({word.confidence:.1f}){f': {reason}' if reason else ''}",
    )  # fmt: skip
