"""Check and decode untrusted pictures, and compute their perceptual hashes.

The header's size is checked before decoding, the decoded picture must have that size, and truncated files are refused.

JPEGs take a fast path: their segments give size and end, and OpenCV decodes them once, grey and at reduced scale (95 %
of that time is entropy decoding). Pillow decodes the rest. Both paths give the same hashes, bit for bit, and refuse the
same files: a JPEG without its end marker, or with one before its last pixel, is truncated.

The hashes follow the DCT method of Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions" (2010):
the lowest frequencies against their median. 64 bits tell templates apart, 256 bits captions on one template.
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
from PIL import ImageOps

from memeloom.catalog.errors import BadImage
from memeloom.catalog.formats import JpegHeader, Still, is_page, is_whole, read_jpeg, still_format, undecodable_format
from memeloom.catalog.records import Image

Pixels: TypeAlias = NDArray[np.uint8]

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")
# What Pillow raises for damaged files.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError,
           AttributeError, NotImplementedError, struct.error, zlib.error)  # fmt: skip
_ORIENTATION = 0x0112
_HASH_SIDE = 64
# The decoder may scale a JPEG down while it decodes, but never below this size.
_REDUCED_SIDE = 2 * _HASH_SIDE
_REDUCED_GREY = {
    8: cv2.IMREAD_REDUCED_GRAYSCALE_8, 4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
    2: cv2.IMREAD_REDUCED_GRAYSCALE_2, 1: cv2.IMREAD_GRAYSCALE,
}  # fmt: skip
# Each pass of a progressive JPEG may cost as much as the whole picture and take only a few bytes.
_MOST_SCANS = 100
# The grey that decoders write where a JPEG's bits run out, and bits that they would decode to something else.
_STARVED = 128
_FEED = b"\x5a\xa5\x3c\xc3" * 32
# Of 255: alpha of what is visible, each channel of what vanishes on white, and the ground that shows both it and black.
_OPAQUE, _NEARLY_WHITE, _GREY = 128, 225, 128
# On grey: least share of the picture that is transparent, and of the edges of the rest that would vanish on white.
_MIN_CLEAR, _MOST_VANISHING = 0.05, 0.25

# `max_pixels` is checked on every path below, and a setting may allow more than Pillow's own limit does.
Pillow.MAX_IMAGE_PIXELS = None
# Warnings about broken metadata in untrusted files help nobody.
warnings.filterwarnings("ignore", module=r"PIL\.")


def inspect_image(data: bytes, *, max_bytes: int, max_pixels: int) -> Image:
    """Check that `data` is a complete picture within the limits, and describe it.

    Every pixel of the (first) frame is decoded, JPEGs at reduced scale.

    Raises:
        BadImage: `empty`, `too many bytes`, `not an image`, `HEIC not supported` (or `JPEG XL` …), `too many pixels`,
            `too many scans` or `truncated`.
    """
    if len(data) > max_bytes:
        raise BadImage("too many bytes", f"{len(data)} of {max_bytes}")
    form = _format(data)
    grey, width, height = _grey(data, form, _REDUCED_SIDE, max_pixels)
    phash64, phash256 = perceptual_hashes(grey)
    return Image(
        key=hashlib.sha256(data).hexdigest(),
        width=width, height=height, format=form, bytes=len(data),
        phash64=phash64, phash256=phash256,
    )  # fmt: skip


def decode_grey(data: bytes, side: int, *, max_pixels: int = 50_000_000) -> Pixels:
    """Decode to (height, width) grey, upright; JPEGs at reduced scale.

    Args:
        data: the file.
        side: least shorter side, unless the picture is smaller.
        max_pixels: limit on width times height.

    Raises:
        BadImage: as `inspect_image`, except `too many bytes`.
    """
    return _grey(data, _format(data), side, max_pixels)[0]


def decode_image(data: bytes, *, max_pixels: int = 50_000_000) -> Pixels:
    """Decode to (height, width, 3) BGR: upright, first frame, transparency on white.

    White letters on a transparent ground would vanish: such a picture is put on grey instead.

    Raises:
        BadImage: as `inspect_image`, but for `too many bytes`.
    """
    form = _format(data)
    header = _jpeg_header(data, max_pixels) if form == "jpeg" else None
    if header and header.plain:
        pixels = _decoded(data, header, cv2.IMREAD_COLOR)
        return _upright(pixels, _orientation(_open(data, max_pixels)) if header.tagged else 1)
    picture = _open_whole(data, form, max_pixels)
    _load(picture, data, header)
    pixels = _pixels(picture, "RGB")[:, :, ::-1]
    return _upright(pixels, _orientation(picture))


def load_picture(data: bytes, *, max_pixels: int) -> Pillow.Image:
    """Decode to a Pillow image with palette and transparency: upright, first frame, without metadata.

    Raises:
        BadImage: as `inspect_image`, but for `too many bytes`.
    """
    form = _format(data)
    header = _jpeg_header(data, max_pixels) if form == "jpeg" else None
    picture = _open_whole(data, form, max_pixels)
    _load(picture, data, header)
    try:
        upright = ImageOps.exif_transpose(picture)
    except BROKEN as error:
        raise BadImage("truncated", str(error)) from None
    upright.info = {name: value for name, value in picture.info.items() if name == "transparency"}
    return upright


def perceptual_hashes(grey: Pixels) -> tuple[str, str]:
    """Return the pHashes of (height, width) grey: 64 bits (8 x 8 frequencies) and 256 bits (16 x 16), in hex."""
    small = cv2.resize(grey, (_HASH_SIDE, _HASH_SIDE), interpolation=cv2.INTER_AREA)
    frequencies = np.asarray(cv2.dct(small.astype(np.float32)), np.float32)
    # On a flat picture only rounding noise is left.
    frequencies[np.abs(frequencies) < 0.01] = 0.0
    return _bits(frequencies[:8, :8]), _bits(frequencies[:16, :16])


def _bits(frequencies: NDArray[np.float32]) -> str:
    ordered = np.sort(frequencies, axis=None)
    median = (ordered[ordered.size // 2 - 1] + ordered[ordered.size // 2]) / 2
    return np.packbits(frequencies > median).tobytes().hex()


def _format(data: bytes) -> Still:
    if not data:
        raise BadImage("empty")
    form = still_format(data)
    if form is None:
        if name := undecodable_format(data):
            raise BadImage(f"{name} not supported", "save it as PNG or JPEG")
        raise BadImage("not an image", "a page of text or markup" if is_page(data) else "")
    return form


def _jpeg_header(data: bytes, max_pixels: int) -> JpegHeader:
    header = read_jpeg(data)
    if header is None:
        raise BadImage("not an image", "a JPEG without a size")
    _check_size(header.width, header.height, max_pixels)
    if header.end is None:
        raise BadImage("truncated", "no end marker")
    if header.scans > _MOST_SCANS:
        raise BadImage("too many scans", str(header.scans))
    return header


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise BadImage("not an image", f"{width} x {height} pixels")
    if width * height > max_pixels:
        raise BadImage("too many pixels", f"{width} x {height}")


def _grey(data: bytes, form: Still, side: int, max_pixels: int) -> tuple[Pixels, int, int]:
    """Return upright grey, at least `side` pixels on the shorter side, and the full picture's width and height."""
    header = _jpeg_header(data, max_pixels) if form == "jpeg" else None
    if header and header.plain:
        width, height = header.width, header.height
        grey = _reduced_grey(data, header, side)
        orientation = _orientation(_open(data, max_pixels)) if header.tagged else 1
    else:
        picture = _open_whole(data, form, max_pixels)
        width, height = picture.size
        picture.draft("L", (side, side))
        _load(picture, data, header)
        grey, orientation = _pixels(picture, "L"), _orientation(picture)
    if orientation >= 5:
        width, height = height, width
    return _upright(grey, orientation), width, height


def _reduced_grey(data: bytes, header: JpegHeader, side: int) -> Pixels:
    """Decode a JPEG to grey at the smallest scale that keeps `side` pixels on the shorter side."""
    room = min(header.width, header.height) // side
    scale = next((scale for scale in _REDUCED_GREY if scale <= room), 1)
    return _decoded(data, header, _REDUCED_GREY[scale], scale)


def _decoded(data: bytes, header: JpegHeader, flags: int, scale: int = 1) -> Pixels:
    try:
        found = cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        found = None
    if found is None or found.shape[:2] != (-(-header.height // scale), -(-header.width // scale)):
        raise BadImage("truncated", "its pixels cannot be decoded")
    pixels = np.asarray(found, np.uint8)
    _refuse_starved(data, header, pixels[-1, -1])
    return pixels


def _load(picture: Pillow.Image, data: bytes, header: JpegHeader | None) -> None:
    """Decode `picture` in place. header: of a JPEG."""
    try:
        picture.load()
    except BROKEN as error:
        raise BadImage("truncated", str(error)) from None
    if header:
        _refuse_starved(data, header, np.asarray(picture.getpixel((picture.width - 1, picture.height - 1))))


def _refuse_starved(data: bytes, header: JpegHeader, last: NDArray[np.generic]) -> None:
    """Refuse a JPEG that ends early; `last` is its last pixel."""
    # Decoders of CMYK invert the grey.
    if bool(np.isin(last, (_STARVED, 255 - _STARVED)).all()) and _is_starved(data, header):
        raise BadImage("truncated", "its bits end before its pixels do")


def _is_starved(data: bytes, header: JpegHeader) -> bool:
    """Return True if a JPEG's data ends before its end marker: it was truncated and closed again.

    Decoders silently fill the rest with grey. Inserting bits before the marker changes only a truncated picture.
    """
    fed = data[: header.end] + _FEED + data[header.end :]
    shown = []
    for version in (data, fed):
        picture = _open(version, header.width * header.height)
        picture.draft("L", (_REDUCED_SIDE, _REDUCED_SIDE))
        shown.append(_pixels(picture, "L"))
    return not np.array_equal(shown[0], shown[1])


def _open(data: bytes, max_pixels: int) -> Pillow.Image:
    try:
        picture = Pillow.open(io.BytesIO(data), formats=_FORMATS)
    except BROKEN:
        raise BadImage("not an image") from None
    _check_size(*picture.size, max_pixels)
    return picture


def _open_whole(data: bytes, form: Still, max_pixels: int) -> Pillow.Image:
    """Open a file that is complete; for a JPEG, `_jpeg_header` has checked that."""
    whole = form == "jpeg" or is_whole(form, data)
    # Pillow cannot even read the header of a truncated WebP.
    picture = _open(data, max_pixels) if whole or form != "webp" else None
    if picture is None or not whole:
        raise BadImage("truncated", f"a {form} without its end")
    return picture


def _pixels(picture: Pillow.Image, mode: str) -> Pixels:
    """Convert to `mode` ("L" or "RGB"), transparency on white or grey, 16 bits scaled to 8."""
    try:
        if picture.mode.startswith("I"):
            wide = np.asarray(picture)
            picture = Pillow.fromarray((np.clip(wide, 0, 65535) >> 8).astype(np.uint8))
        elif picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
            picture = picture.convert("RGBA")
            ground = Pillow.new("RGBA", picture.size, _ground(np.asarray(picture)))
            picture = Pillow.alpha_composite(ground, picture)
        return np.asarray(picture.convert(mode))
    except BROKEN as error:
        raise BadImage("truncated", str(error)) from None


def _ground(rgba: Pixels) -> tuple[int, int, int]:
    """Return the colour behind a picture: white, as on most pages, but grey if much would be white on white."""
    clear = np.asarray(rgba[:, :, 3] < _OPAQUE, np.uint8)
    rim = cv2.dilate(clear, np.ones((3, 3), np.uint8)) > clear
    vanishing = rim & (rgba[:, :, :3] >= _NEARLY_WHITE).all(axis=2)
    is_hidden = clear.mean() >= _MIN_CLEAR and vanishing.sum() > _MOST_VANISHING * rim.sum()
    return (_GREY if is_hidden else 255,) * 3


def _orientation(picture: Pillow.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if it is missing or invalid."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except BROKEN:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undo the camera's orientation (EXIF 2.3, tag 274): turn first, then mirror."""
    turns = {3: 2, 4: 2, 5: 3, 6: 3, 7: 1, 8: 1}.get(orientation, 0)
    pixels = np.rot90(pixels, turns)
    if orientation in (2, 4, 5, 7):
        pixels = np.fliplr(pixels)
    return np.ascontiguousarray(pixels)
