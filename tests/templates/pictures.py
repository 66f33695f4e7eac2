"""Pictures drawn by code that look as different as templates do, and memes on them."""

import io
from functools import cache

import cv2
import numpy as np
from PIL import Image as Pillow

from memeloom.catalog.images import Pixels
from memeloom.serve.drawing.draw import draw_caption

_WORDS = """
WHEN THE TESTS ARE GREEN ON MY MACHINE BUT NOT ON YOURS AND NOBODY KNOWS WHY THAT COULD EVER HAVE HAPPENED TO SUCH A
NICE PIECE OF CODE THAT WE ALL LOVED
"""


@cache
def draw(seed: int) -> Pillow.Image:
    """A picture of 500 x 400: soft colours with many hard-edged shapes."""
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
def captioned(template: int, caption: int) -> Pillow.Image:
    """A meme on `draw(template)` with a caption of its own."""
    random = np.random.default_rng(1000 + caption)
    words = [str(word) for word in random.choice(_WORDS.split(), 9)]
    return draw_caption(draw(template), (), [" ".join(words[:5]), f"{' '.join(words[5:])} {caption}"])


def encode(picture: Pillow.Image, quality: int = 85) -> bytes:
    """The picture as JPEG."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def grey(picture: Pillow.Image) -> Pixels:
    """The picture's brightness, (height, width)."""
    return np.asarray(picture.convert("L"), np.uint8)
