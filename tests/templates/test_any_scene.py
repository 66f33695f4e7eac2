"""Words are removed from any picture: of noise, plain, with smooth or hard-edged shapes, and boxes anywhere."""

import cv2
import numpy as np
import pytest

from memeloom.catalog.images import Pixels
from memeloom.catalog.records import OcrBox
from memeloom.templates.wordless import remove_words


def any_scene(seed: int) -> tuple[Pixels, list[OcrBox]]:
    """Return a picture with some letters, and boxes that need not be where they are."""
    random = np.random.default_rng(seed)
    height, width = (int(side) for side in random.integers(8, 160, 2))
    kind = random.integers(4)
    grain = (height, width) if kind == 0 else (1, 1) if kind == 1 else (6, 6)
    coarse = random.integers(0, 256, (*grain, 3)).astype(np.uint8)
    smooth = cv2.INTER_CUBIC if kind == 2 else cv2.INTER_NEAREST
    picture = np.asarray(cv2.resize(coarse, (width, height), interpolation=smooth), np.uint8)
    for _ in range(random.integers(0, 5)):
        place = int(random.integers(-5, width)), int(random.integers(0, height + 5))
        colour, bold = [int(value) for value in random.integers(0, 256, 3)], int(random.integers(1, 5))
        text = "AbcX i"[: random.integers(1, 7)]
        cv2.putText(picture, text, place, int(random.integers(0, 8)), float(random.uniform(0.2, 2)), colour, bold)
    boxes = []
    for _ in range(random.integers(1, 4)):
        x, y = random.uniform(0, 0.95, 2)
        wide, tall = random.uniform(0, 1 - x), random.uniform(0, 1 - y)
        text = "some words here"[: random.integers(1, 15)]
        boxes.append(OcrBox(text=text, x=x, y=y, width=wide, height=tall, confidence=90.0))
    return picture, boxes


# In the first two, no letter is in a row; in the third, plain bars take all of a hole.
@pytest.mark.parametrize("seed", [30, 165, 1465, *range(3)])
def test_words_are_removed_from_any_scene(seed: int) -> None:
    picture, boxes = any_scene(seed)
    done = remove_words(picture, boxes)
    if done is not None:
        assert np.array_equal(done.picture[done.mask == 0], picture[done.mask == 0])
