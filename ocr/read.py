"""One picture, read: engine, cleaning and layout together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.records import Ocr, TemplateBox
from memeloom.configs import schema
from memeloom.ocr.engine import Engine, Word
from memeloom.ocr.layout import fill_boxes, find_boxes, find_lines
from memeloom.ocr.steps import Reading, clean, cleaning_steps
from memeloom.ocr.words import WordModel


@dataclass(frozen=True, slots=True)
class Read:
    """One picture read. found: the words of the engine. reading: what cleaning left of them. ocr: the caption."""

    found: tuple[Word, ...]
    reading: Reading
    ocr: Ocr


def read_picture(
    picture: NDArray[np.uint8],
    engine: Engine,
    settings: schema.Ocr,
    places: Sequence[TemplateBox] = (),
    words: WordModel | None = None,
) -> Ocr:
    """Read `picture`, a BGR array of shape (height, width, 3), as a caption.

    places: the text boxes of the template, if it is known: the caption gets one box for each, in
    their order. Without, its boxes are what stands together, in reading order.
    words: the words of the catalog's captions, if they are known: lost spaces are put back by them.

    Raises:
        ReadFailed: the engine could not read it in time, or at all.
    """
    return read_closely(picture, engine, settings, places, words).ocr


def read_closely(
    picture: NDArray[np.uint8],
    engine: Engine,
    settings: schema.Ocr,
    places: Sequence[TemplateBox] = (),
    words: WordModel | None = None,
) -> Read:
    """As `read_picture`, with what lies between the picture and its caption."""
    height, width = picture.shape[:2]
    found = tuple(engine.read(picture))
    reading, dropped = clean(Reading(found), cleaning_steps(settings, words))
    kept, aspect = reading.words, width / height
    boxes = fill_boxes(kept, aspect, places) if places and kept else find_boxes(find_lines(kept, aspect))
    confidences = [word.confidence for word in kept]
    ocr = Ocr(
        text="\n".join(box.text for box in boxes if box.text),
        boxes=tuple(boxes),
        confidence=sum(confidences) / len(confidences) if confidences else 0.0,
        engine=engine.name,
        dropped=dropped,
    )
    return Read(found, reading, ocr)
