"""The format of untrusted bytes, by their magic numbers, and whether the file is complete, by its own structure.

Nothing is decoded. Formats state their end (JPEG and GIF by a marker, PNG by a chunk, RIFF, the MP4 family and
Matroska by lengths), so truncated files are found; of a TIFF only a missing directory.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

Still: TypeAlias = Literal["jpeg", "png", "gif", "webp", "bmp"]
# Decoded in a process of its own.
Foreign: TypeAlias = Literal["mp4", "webm", "avif", "tiff"]

_MAGIC: tuple[tuple[bytes, Still], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
)
_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = b"\x18\x53\x80\x67"
_TIFF = (b"II*\0", b"MM\0*")
# The MP4 family also wraps stills. ``mif1`` and ``msf1`` leave the coding open: HEIC, unless AVIF is stated too.
_AVIF = {b"avif", b"avis"}
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_JPEG_XL = (b"\0\0\0\x0cJXL \r\n\x87\n", b"\xff\x0a")
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<(?:!doctype|!--|\?xml|html|head|body|script|error|p|h1|title)\b|[{\[]\s*\")",
    re.IGNORECASE,
)

# In compressed data a 0xff is followed by a zero or a restart marker; anything else ends the scan.
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_SOI, _EOI, _SOS, _TEM, _EXIF = 0xD8, 0xD9, 0xDA, 0x01, 0xE1
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_HUFFMAN_DCT = (0xC0, 0xC1, 0xC2)


def still_format(data: bytes) -> Still | None:
    """Return the picture format by the first bytes; animations included."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((form for magic, form in _MAGIC if data.startswith(magic)), None)


def foreign_format(data: bytes) -> Foreign | None:
    """Return ``mp4`` (or QuickTime), ``webm`` (or Matroska), ``avif`` or ``tiff`` by the first bytes."""
    if data.startswith(_EBML):
        return "webm"
    if data.startswith(_TIFF):
        return "tiff"
    brands = _brands(data)
    if not _AVIF.isdisjoint(brands):
        return "avif"
    return "mp4" if brands and brands[0] not in _HEIC else None


def undecodable_format(data: bytes) -> str | None:
    """Return the name of a picture format for which there is no decoder, or only a foreign one."""
    if data.startswith(_JPEG_XL):
        return "JPEG XL"
    form = foreign_format(data)
    if form in ("avif", "tiff"):
        return form.upper()
    return "HEIC" if form is None and _brands(data) else None


def _brands(data: bytes) -> list[bytes]:
    """Return the brands that a file of the MP4 family states, the main one first."""
    if data[4:8] != b"ftyp":
        return []
    end = max(12, min(int.from_bytes(data[:4]), 256))
    return [data[8:12], *(data[at : at + 4] for at in range(16, end, 4))]


def is_page(data: bytes) -> bool:
    """Return True if `data` begins like HTML, XML or JSON, which hosts send in place of a picture."""
    return _PAGE.match(data[:512]) is not None


class JpegHeader(NamedTuple):
    """Facts from the segments of a JPEG.

    Attributes:
        plain: eight bits, Huffman coded, grey or three components, which every decoder reads.
        tagged: it has an APP1 segment, which may hold the camera's orientation.
        scans: passes over the picture.
        end: offset of the end marker; None if the file is truncated.
    """

    width: int
    height: int
    plain: bool
    tagged: bool
    scans: int
    end: int | None


def read_jpeg(data: bytes) -> JpegHeader | None:
    """Read the segments of a JPEG up to the end marker. Returns None if it states no size."""
    size: tuple[int, int] | None = None
    plain, tagged, scans, end = False, False, 0, None
    for marker, at in _jpeg_segments(data):
        if marker in _JPEG_FRAMES and size is None and at + 8 <= len(data):
            height, width = int.from_bytes(data[at + 3 : at + 5]), int.from_bytes(data[at + 5 : at + 7])
            size = width, height
            plain = marker in _HUFFMAN_DCT and data[at + 2] == 8 and data[at + 7] in (1, 3)
        tagged = tagged or marker == _EXIF
        scans += marker == _SOS
        if marker == _EOI:
            end = at - 2
    return JpegHeader(*size, plain, tagged, scans, end) if size else None


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield markers and the offsets behind them, up to the end marker or the end of the file."""
    at = 2
    # Like decoders, skip fill bytes and garbage between segments.
    while found := _JPEG_MARKER.search(data, at):
        at, marker = found.end(), data[found.end() - 1]
        yield marker, at
        if marker == _EOI:
            return
        if marker not in (_SOI, _TEM):
            at += int.from_bytes(data[at : at + 2])


def is_whole(form: Still | Foreign, data: bytes) -> bool:
    """Return True if `data` reaches its format's end. A live WebM states none and counts as complete."""
    return _WHOLE[form](data)


def is_animated(form: Still, data: bytes) -> bool:
    """Return True if a GIF or WebP has several frames. An animated PNG is also a plain one, of its first frame."""
    if form == "gif":
        images = (block for block in _gif_blocks(data) if block == b",")
        return next(images, None) is not None and next(images, None) is not None
    return form == "webp" and data[12:16] == b"VP8X" and bool(data[20] & 2) and data.count(b"ANMF") > 1


def _png_chunks(data: bytes) -> Iterator[bytes]:
    at = 8
    while (end := at + 12 + int.from_bytes(data[at : at + 4])) <= len(data):
        yield data[at + 4 : at + 8]
        at = end


def _gif_blocks(data: bytes) -> Iterator[bytes]:
    """Yield ``,`` for each complete image, ``!`` for each complete extension, and ``;`` for the end."""
    at = 13 + _colours(data[10:11])
    while at < len(data):
        block = data[at : at + 1]
        if block == b";":
            yield block
            return
        if block == b",":
            at += 11 + _colours(data[at + 9 : at + 10])
        elif block == b"!":
            at += 2
        else:
            return
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
        if at <= len(data):
            yield block


def _colours(flags: bytes) -> int:
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _is_whole_mp4(data: bytes, index: bytes = b"moov") -> bool:
    at, kinds = 0, set[bytes]()
    while at + 8 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if length == 1:
            length = int.from_bytes(data[at + 8 : at + 16])
        elif length == 0:
            length = len(data) - at
        if length < 8 or at + length > len(data):
            return False
        kinds.add(kind)
        at += length
    return at == len(data) and index in kinds


def _is_whole_webm(data: bytes) -> bool:
    segment = data.find(_SEGMENT, 0, 1024)
    if segment < 0:
        return False
    # A number of 1 to 8 bytes: as many zeros lead as bytes follow; all ones is a length that nobody knew.
    at = segment + len(_SEGMENT)
    width = 9 - int.from_bytes(data[at : at + 1]).bit_length()
    number = data[at : at + width]
    if len(number) < width or width > 8:
        return False
    stated, unknown = int.from_bytes(number) - (1 << 7 * width), (1 << 7 * width) - 1
    return stated == unknown or at + width + stated <= len(data)


def _is_whole_tiff(data: bytes) -> bool:
    order: Literal["little", "big"] = "little" if data.startswith(b"II") else "big"
    at = int.from_bytes(data[4:8], order)
    return at + 6 + 12 * int.from_bytes(data[at : at + 2], order) <= len(data)


_WHOLE: dict[Still | Foreign, Callable[[bytes], bool]] = {
    "jpeg": lambda data: (header := read_jpeg(data)) is not None and header.end is not None,
    "png": lambda data: b"IEND" in _png_chunks(data),
    "gif": lambda data: b";" in _gif_blocks(data),
    "webp": lambda data: 8 + int.from_bytes(data[4:8], "little") <= len(data),
    "bmp": lambda data: int.from_bytes(data[2:6], "little") <= len(data),
    "mp4": _is_whole_mp4,
    "webm": _is_whole_webm,
    "avif": lambda data: _is_whole_mp4(data, b"meta"),
    "tiff": _is_whole_tiff,
}
