"""The pixels of the pictures in records, as networks want them.

Models that look at no pictures work where OpenCV and Pillow are not installed.
"""

import numpy as np
from numpy.typing import NDArray


def rgb_pixels(data: bytes) -> NDArray[np.uint8]:
    """The picture in `data` as RGB, (height, width, 3): upright, first frame, transparency on white.

    Raises:
        BadImage: not a whole picture that we accept.
    """
    from memeloom.catalog.images import decode_image

    return np.ascontiguousarray(decode_image(data)[:, :, ::-1])


def squared(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A picture (height, width, 3) of any size, stretched to (side, side, 3)."""
    import cv2

    shrinks = min(pixels.shape[:2]) >= side
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (side, side), interpolation=how), np.uint8)
