"""Decodes pictures for sketches: in colour, and JPEGs at reduced scale. What is odd goes the catalog's careful way.

In colour that takes no longer than in grey: nearly all the time goes into reading the compressed bits.
"""

import cv2
import numpy as np

from memeloom.catalog.formats import JpegHeader, read_jpeg, still_format
from memeloom.catalog.images import Pixels, decode_grey, decode_image

_REDUCED = {
    8: cv2.IMREAD_REDUCED_COLOR_8, 4: cv2.IMREAD_REDUCED_COLOR_4,
    2: cv2.IMREAD_REDUCED_COLOR_2, 1: cv2.IMREAD_COLOR,
}  # fmt: skip
_USUAL_SCANS = 16
_STARVED = 128  # what a decoder puts where a JPEG's bits run out


def decode_small(data: bytes, side: int, *, max_pixels: int) -> Pixels:
    """The picture in `data` as (height, width, 3) BGR, upright.

    side: the shorter side keeps at least so many pixels, if it has them. Only JPEGs are made smaller.

    Raises:
        BadImage: as `catalog.images.decode_grey`.
    """
    header = read_jpeg(data) if still_format(data) == "jpeg" else None
    if header:
        if _is_usual(header, max_pixels):
            small = _reduced(data, header, side)
            if small is not None:
                return small
        # It tells a JPEG that is cut off from one that is odd, which decoding in colour does not.
        decode_grey(data, side, max_pixels=max_pixels)
    return decode_image(data, max_pixels=max_pixels)


def _is_usual(header: JpegHeader, max_pixels: int) -> bool:
    return (
        header.plain and not header.tagged and header.end is not None
        and header.scans <= _USUAL_SCANS and 0 < header.width * header.height <= max_pixels
    )  # fmt: skip


def _reduced(data: bytes, header: JpegHeader, side: int) -> Pixels | None:
    """None if that gave anything but a picture that is surely whole."""
    room = min(header.width, header.height) // side
    scale = next((scale for scale in _REDUCED if scale <= room), 1)
    try:
        found = cv2.imdecode(np.frombuffer(data, np.uint8), _REDUCED[scale] | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        return None
    if found is None or found.shape[:2] != (-(-header.height // scale), -(-header.width // scale)):
        return None
    return None if (found[-1, -1] == _STARVED).all() else np.asarray(found, np.uint8)
