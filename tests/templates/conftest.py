"""Pictures drawn by code that look as different as templates do."""

import io
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from catalog.images import inspect_image
from catalog.records import Image, Template


@pytest.fixture
def draw() -> Callable[[int], Pillow.Image]:
    """Seed in, picture of 500 x 400 out: soft colours with many hard-edged shapes."""

    def draw(seed: int) -> Pillow.Image:
        random = np.random.default_rng(seed)
        canvas = cv2.resize(random.integers(0, 256, (5, 6, 3), np.uint8), (500, 400), interpolation=cv2.INTER_CUBIC)
        for _ in range(25):
            x, y, radius = (int(value) for value in random.integers((0, 0, 15), (500, 400, 70)))
            cv2.circle(canvas, (x, y), radius, [int(value) for value in random.integers(0, 256, 3)], -1)
        return Pillow.fromarray(canvas)

    return draw


@pytest.fixture
def described() -> Callable[..., Image]:
    """Picture (and JPEG quality) in, what the catalog would know of it out."""

    def describe(picture: Pillow.Image, quality: int = 90) -> Image:
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=quality)
        return inspect_image(stream.getvalue(), max_bytes=10**8, max_pixels=10**8)

    return describe


@pytest.fixture
def template(draw: Callable[[int], Pillow.Image], described: Callable[..., Image]) -> Callable[[int], Template]:
    """Seed in, the template with that picture out."""

    def make(seed: int) -> Template:
        return Template(
            id=f"{seed}", slug=f"slug-{seed}", name=f"Name {seed}", image=described(draw(seed)), source="drawn"
        )

    return make
