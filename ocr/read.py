"""Read one picture: engine, cleaning and layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.records import Ocr, TemplateBox
from memeloom.configs import schema
from memeloom.engine.steps import apply_steps
from memeloom.ocr.cleaning import cleaning_steps
from memeloom.ocr.engines.contract import Engine, Word
from memeloom.ocr.layout import fill_boxes, find_boxes, find_lines
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import WordModel


@dataclass(frozen=True, slots=True)
class ReadDetails:
    """found: the engine's words. reading: the words after cleaning. ocr: the caption."""

    found: tuple[Word, ...]
    reading: Reading
    ocr: Ocr


def read_picture(
    picture: NDArray[np.uint8],
    engine: Engine,
    settings: schema.Ocr,
    places: Sequence[TemplateBox] = (),
    words: WordModel | None = None,
) -> ReadDetails:
    """Read the caption of `picture`, a BGR array of shape (height, width, 3).

    places: text boxes of the template, if known, one for each box of the caption; otherwise neighbouring lines are
        grouped, in reading order.
    words: word model of the catalog's captions, to restore lost spaces.

    Raises:
        ReadFailed: the engine failed or exceeded its deadline.
    """
    height, width = picture.shape[:2]
    found = tuple(engine.read(picture))
    reading, drop = apply_steps(cleaning_steps(settings, words), Reading(found))
    kept, aspect = reading.words, width / height
    boxes = fill_boxes(kept, aspect, places) if places and kept else find_boxes(find_lines(kept, aspect))
    confidences = [word.confidence for word in kept]
    ocr = Ocr(
        text="\n".join(box.text for box in boxes if box.text),
        boxes=tuple(boxes),
        confidence=sum(confidences) / len(confidences) if confidences else 0.0,
        engine=engine.name,
        dropped=drop.reason if drop else None,
    )
    return ReadDetails(found, reading, ocr)
