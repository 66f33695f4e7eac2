"""Memes for the tests of OCR: drawn pictures, records with a picture, and words placed by hand."""

import io
from contextlib import closing
from datetime import UTC, datetime

import cv2
import numpy as np
from PIL import Image as Pillow

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import Image, Meme, TemplateBox
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.schema import Config
from memeloom.ocr.engines.contract import Word
from memeloom.serve.drawing.draw import draw_caption

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def draw_meme(*texts: str, boxes: tuple[TemplateBox, ...] = (), seed: int = 1) -> Pillow.Image:
    """A picture of 600 x 500: white outlined letters on a soft photo."""
    random = np.random.default_rng(seed)
    photo = cv2.resize(random.integers(30, 200, (6, 7, 3), np.uint8), (600, 500), interpolation=cv2.INTER_CUBIC)
    return draw_caption(Pillow.fromarray(photo), boxes, texts)


def encoded(picture: Pillow.Image, form: str = "JPEG", **options: object) -> bytes:
    """The picture as a file. options: of Pillow's `save`."""
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def bgr(picture: Pillow.Image) -> Pixels:
    """The pixels as engines take them."""
    return np.ascontiguousarray(np.asarray(picture.convert("RGB"))[:, :, ::-1])


def put(config: Config, name: str, data: bytes, **facts: object) -> str:
    """Put a meme with the picture `data`, which may be anything, into the catalog; return the key of the picture."""
    image = Image(
        key=open_blobs(config.store).put(data), width=600, height=500, format="jpeg", bytes=max(len(data), 1),
        phash64="0" * 16, phash256="0" * 64,
    )  # fmt: skip
    known = {"id": f"test:{name}", "source": "test", "image": image, "fetched_at": LONG_AGO}
    with closing(open_documents(config.store)) as documents:
        documents.upsert([Meme.model_validate({**known, **facts})])
    return image.key


def text_line(
    text: str, number: int, *, x: float = 0.1, y: float, height: float, confidence: float = 97.0
) -> tuple[Word, ...]:
    """The words of a line, as wide as their letters are many."""
    words = []
    for word in text.split():
        width = 0.6 * height * len(word)
        words.append(Word(word, x, y, width, height, confidence, number))
        x += width + 0.4 * height
    return tuple(words)
