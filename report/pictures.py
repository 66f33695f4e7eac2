"""Pictures that a page holds itself."""

import base64

import cv2
import numpy as np
from numpy.typing import NDArray


def embed(picture: NDArray[np.uint8], side: int, quality: int) -> str:
    """Return `picture` (BGR) as a ``data:`` address: a JPEG no longer than `side` pixels."""
    height, width = picture.shape[:2]
    scale = side / max(height, width)
    if scale < 1:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype("uint8", copy=False)
    _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()
