"""Computed pictures as blobs: the same pixels give the same bytes, and so the same key."""

from typing import Literal

import cv2
import numpy as np

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.images import Pixels, inspect_image
from memeloom.catalog.records import Image, Made

_QUALITY = 95  # of JPEGs: they were JPEGs before, and will be looked at
_LOSSY = ("jpeg", "webp")


def keep_picture(blobs: BlobStore, picture: Pixels, like: str) -> Image:
    """Store a BGR picture: as JPEG if it was made from one, else as PNG.

    like: the format of what it was made from.

    Raises:
        StoreError: the blob store refused or failed.
    """
    data = _encoded(picture, ".jpg", cv2.IMWRITE_JPEG_QUALITY, _QUALITY) if like in _LOSSY else _png(picture)
    image = inspect_image(data, max_bytes=len(data), max_pixels=picture.shape[0] * picture.shape[1])
    blobs.put(data, image.key)
    return image


def keep_made(
    blobs: BlobStore,
    picture: Pixels,
    mask: Pixels,
    method: Literal["inpaint", "template"],
    made_from: tuple[Image, ...],
) -> Made:
    """Store a meme without words, and where they stood.

    made_from: the meme's own picture, and its template's if that was used.

    Raises:
        StoreError: the blob store refused or failed.
    """
    kept = keep_picture(blobs, picture, made_from[0].format)
    keys = tuple(image.key for image in made_from)
    return Made(image=kept, method=method, made_from=keys, mask=blobs.put(_png(mask)))


def _png(pixels: Pixels) -> bytes:
    return _encoded(pixels, ".png", cv2.IMWRITE_PNG_COMPRESSION, 6)


def _encoded(pixels: Pixels, ending: str, option: int, value: int) -> bytes:
    _, data = cv2.imencode(ending, pixels, [option, value])
    return np.asarray(data, np.uint8).tobytes()
