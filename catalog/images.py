"""Pictures from strangers: what they really are, whether they are whole, and how they look.

Nothing that a header says is believed for long: the size is checked before any pixel is decoded,
the decoded picture must have that size, and a file whose pixels do not all arrive is refused.

The perceptual hashes follow the DCT method of Zauner, "Implementation and Benchmarking of
Perceptual Image Hash Functions" (2010): the lowest frequencies against their median. 64 bits tell
templates apart, 256 bits tell captions on one template apart.
"""

import hashlib
import io
import struct
import warnings
import zlib
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from catalog.errors import BadImage
from catalog.records import Image

Pixels: TypeAlias = NDArray[np.uint8]

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError,
           AttributeError, NotImplementedError, struct.error, zlib.error)  # fmt: skip
_ORIENTATION = 0x0112
_JPEG_END = b"\xff\xd9"
_HASH_SIDE = 64

# `max_pixels` is checked on every path below, and a setting may allow more than Pillow's own limit does.
Pillow.MAX_IMAGE_PIXELS = None
# Pillow remarks on nonsense in strangers' metadata; nobody can act on that.
warnings.filterwarnings("ignore", module=r"PIL\.")


def inspect_image(data: bytes, *, max_bytes: int, max_pixels: int) -> Image:
    """Check that `data` is a whole picture within the limits, and describe it.

    Every pixel is decoded (JPEGs at reduced scale), of an animation those of the first frame.

    Raises:
        BadImage: `empty`, `too many bytes`, `not an image`, `too many pixels` or `truncated`.
    """
    if not data:
        raise BadImage("empty")
    if len(data) > max_bytes:
        raise BadImage("too many bytes", f"{len(data)} of {max_bytes}")
    picture = _open(data, max_pixels)
    width, height = picture.size
    form = str(picture.format).lower()
    # The decoder may scale a JPEG down while it decodes, but never below this size.
    picture.draft("L", (2 * _HASH_SIDE, 2 * _HASH_SIDE))
    grey = _upright(_pixels(picture, "L"), orientation := _orientation(picture))
    if orientation >= 5:
        width, height = height, width
    phash64, phash256 = perceptual_hashes(grey)
    return Image(
        key=hashlib.sha256(data).hexdigest(),
        width=width, height=height, format=form, bytes=len(data),
        phash64=phash64, phash256=phash256,
    )  # fmt: skip


def decode_image(data: bytes, *, max_pixels: int = 50_000_000) -> Pixels:
    """The picture in `data` as (height, width, 3) BGR: upright, first frame, transparency on white.

    Raises:
        BadImage: `empty`, `not an image`, `too many pixels` or `truncated`.
    """
    if not data:
        raise BadImage("empty")
    picture = _open(data, max_pixels)
    # OpenCV decodes JPEGs twice as fast, but fills up a cut one silently: those are left to Pillow.
    if picture.format == "JPEG" and picture.mode in ("RGB", "L") and data.endswith(_JPEG_END):
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        found = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if found is None or found.shape[1::-1] != picture.size:
            raise BadImage("truncated", "its pixels cannot be decoded")
        pixels = np.asarray(found, np.uint8)
    else:
        pixels = _pixels(picture, "RGB")[:, :, ::-1]
    return _upright(pixels, _orientation(picture))


def perceptual_hashes(grey: Pixels) -> tuple[str, str]:
    """The pHashes of a (height, width) grey picture: 64 bits (8 x 8 frequencies) and 256 bits (16 x 16), in hex."""
    small = cv2.resize(grey, (_HASH_SIDE, _HASH_SIDE), interpolation=cv2.INTER_AREA)
    frequencies = np.asarray(cv2.dct(small.astype(np.float32)), np.float32)
    # On a flat picture only rounding noise is left; zero is zero.
    frequencies[np.abs(frequencies) < 0.01] = 0.0
    return _bits(frequencies[:8, :8]), _bits(frequencies[:16, :16])


def hamming(a: str, b: str) -> int:
    """Bits in which two hashes (hex, same length) differ."""
    if len(a) != len(b):
        raise ValueError(f"hashes of {4 * len(a)} and {4 * len(b)} bits cannot be compared")
    return (int(a, 16) ^ int(b, 16)).bit_count()


def _bits(frequencies: NDArray[np.float32]) -> str:
    return np.packbits(frequencies > np.median(frequencies)).tobytes().hex()


def _open(data: bytes, max_pixels: int) -> Pillow.Image:
    """Read the header only; the size that it states is the size that will be allocated."""
    try:
        picture = Pillow.open(io.BytesIO(data), formats=_FORMATS)
    except _BROKEN:
        raise BadImage("not an image") from None
    width, height = picture.size
    if width < 1 or height < 1:
        raise BadImage("not an image", f"{width} x {height} pixels")
    if width * height > max_pixels:
        raise BadImage("too many pixels", f"{width} x {height}")
    return picture


def _pixels(picture: Pillow.Image, mode: str) -> Pixels:
    """Decode into `mode` ("L" or "RGB"), transparent parts on white, 16 bits scaled to 8."""
    try:
        picture.load()
        if picture.mode.startswith("I"):
            wide = np.asarray(picture)
            picture = Pillow.fromarray((np.clip(wide, 0, 65535) >> 8).astype(np.uint8))
        elif picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
            picture = picture.convert("RGBA")
            ground = Pillow.new("RGBA", picture.size, "white")
            picture = Pillow.alpha_composite(ground, picture)
        return np.asarray(picture.convert(mode))
    except _BROKEN as error:
        raise BadImage("truncated", str(error)) from None


def _orientation(picture: Pillow.Image) -> int:
    """EXIF orientation 1-8; 1 when there is none or it is nonsense."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except _BROKEN:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undo the camera's orientation (EXIF 2.3, tag 274): turn first, then mirror."""
    turns = {3: 2, 4: 2, 5: 3, 6: 3, 7: 1, 8: 1}.get(orientation, 0)
    pixels = np.rot90(pixels, turns)
    if orientation in (2, 4, 5, 7):
        pixels = np.fliplr(pixels)
    return np.ascontiguousarray(pixels)
