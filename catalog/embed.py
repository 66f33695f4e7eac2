"""Pictures that a page holds itself."""

import base64

import cv2

from memeloom.catalog.images import Pixels


def embed(picture: Pixels, side: int, quality: int) -> str:
    """`picture` (BGR) as the address of itself: a JPEG no longer than `side` pixels."""
    height, width = picture.shape[:2]
    scale = side / max(height, width)
    if scale < 1:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype("uint8", copy=False)
    _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()
