"""Memes drawn by code, and the settings of the default."""

import io
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from memeloom.catalog.records import TemplateBox
from memeloom.configs.load import load_config
from memeloom.configs.schema import Ocr
from memeloom.ocr import stage, worker
from memeloom.serve.drawing import draw_caption
from tests.in_process import work_in_process

DrawMeme = Callable[..., Pillow.Image]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage works in this process."""
    work_in_process(monkeypatch, stage, worker)


@pytest.fixture
def settings() -> Ocr:
    """The defaults."""
    return load_config(environment={}).ocr


@pytest.fixture
def draw_meme() -> DrawMeme:
    """Texts in (and text boxes, and a seed), picture of 600 x 500 out: white outlined letters on a soft photo."""

    def draw(*texts: str, boxes: tuple[TemplateBox, ...] = (), seed: int = 1) -> Pillow.Image:
        random = np.random.default_rng(seed)
        photo = cv2.resize(random.integers(30, 200, (6, 7, 3), np.uint8), (600, 500), interpolation=cv2.INTER_CUBIC)
        return draw_caption(Pillow.fromarray(photo), boxes, texts)

    return draw


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """Picture, format and what Pillow's `save` takes in, bytes out."""

    def encode(picture: Pillow.Image, form: str = "JPEG", **options: object) -> bytes:
        stream = io.BytesIO()
        picture.save(stream, form, **options)
        return stream.getvalue()

    return encode
