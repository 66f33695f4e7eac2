"""Pictures drawn by code that look as different as templates do, and catalogs that hold them."""

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.serve.drawing import draw_caption
from memeloom.templates import recover_stage, worker
from tests.in_process import work_in_process
from tests.templates.meme_catalog import MemeCatalog

_WORDS = """
WHEN THE TESTS ARE GREEN ON MY MACHINE BUT NOT ON YOURS AND NOBODY KNOWS WHY THAT COULD EVER HAVE HAPPENED TO SUCH A
NICE PIECE OF CODE THAT WE ALL LOVED
"""


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages work in this process."""
    work_in_process(monkeypatch, worker, recover_stage)


@cache
def _draw(seed: int) -> Pillow.Image:
    random = np.random.default_rng(seed)
    canvas = cv2.resize(random.integers(0, 256, (5, 6, 3), np.uint8), (500, 400), interpolation=cv2.INTER_CUBIC)
    for _ in range(60):
        x, y, radius = (int(value) for value in random.integers((0, 0, 8), (500, 400, 50)))
        colour = [int(value) for value in random.integers(0, 256, 3)]
        if random.random() < 0.5:
            cv2.circle(canvas, (x, y), radius, colour, -1)
        else:
            cv2.rectangle(canvas, (x, y), (x + radius, y + 2 * radius), colour, -1)
    return Pillow.fromarray(canvas)


@cache
def _captioned(template: int, caption: int) -> Pillow.Image:
    random = np.random.default_rng(1000 + caption)
    words = [str(word) for word in random.choice(_WORDS.split(), 9)]
    return draw_caption(_draw(template), (), [" ".join(words[:5]), f"{' '.join(words[5:])} {caption}"])


@pytest.fixture
def draw() -> Callable[[int], Pillow.Image]:
    """Seed in, picture of 500 x 400 out: soft colours with many hard-edged shapes."""
    return _draw


@pytest.fixture
def captioned() -> Callable[[int, int], Pillow.Image]:
    """Seeds of template and caption in, meme out."""
    return _captioned


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """Picture (and JPEG quality) in, bytes out."""

    def encode(picture: Pillow.Image, quality: int = 85) -> bytes:
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=quality)
        return stream.getvalue()

    return encode


@pytest.fixture
def config(store_config: Store, tmp_path: Path) -> Config:
    """Small batches, one worker, everything under `tmp_path`."""
    overrides = ["templates.batch=4", "engine.workers=1", f"runs={tmp_path}/runs"]
    return load_config(overrides=overrides, environment={}).model_copy(update={"store": store_config})


@pytest.fixture
def catalog(config: Config, encoded: Callable[..., bytes]) -> MemeCatalog:
    """The catalog of `config`, empty."""
    return MemeCatalog(config, encoded)
