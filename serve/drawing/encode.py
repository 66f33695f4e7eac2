"""Drawings as files, with alternative text in their metadata."""

import struct
from io import BytesIO
from typing import Any, Final, Literal, TypeAlias
from xml.sax.saxutils import escape

from PIL import Image, PngImagePlugin

from memeloom.serve.drawing.draw import Drawing

Format: TypeAlias = Literal["jpeg", "png", "webp", "gif"]

_JPEG_QUALITY: Final = 85
_WEBP_QUALITY, _WEBP_METHOD = 80, 0  # method 4 takes four times as long
_PNG_LEVEL: Final = 1  # level 6 takes four times as long
_COLOURS: Final = 256
_IMAGE_DESCRIPTION: Final = 0x010E
# Bytes of alternative text: XMP holds it twice, escaped, in a segment of 65,533 bytes.
_LONGEST: Final = 6000
_XMP: Final = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" \
xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/">\
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{0}</rdf:li></rdf:Alt></dc:description>\
<Iptc4xmpCore:AltTextAccessibility><rdf:Alt><rdf:li xml:lang="x-default">{0}</rdf:li></rdf:Alt>\
</Iptc4xmpCore:AltTextAccessibility></rdf:Description></rdf:RDF></x:xmpmeta>"""


def encode(drawing: Drawing, file_format: Format, alt_text: str) -> bytes:
    """Encode as a file: JPEG and PNG of one frame, WebP and GIF of all.

    Args:
        drawing: what to encode; a still format shows its frame `still`.
        file_format: of the file.
        alt_text: a description for those who do not see the picture, kept in the file: EXIF and XMP (JPEG, WebP),
            iTXt (PNG), a comment (GIF). Only its first 6,000 bytes are kept.
    """
    alt_text = "".join(each if each.isprintable() else " " for each in alt_text[:_LONGEST])
    alt_text = alt_text.encode()[:_LONGEST].decode(errors="ignore")
    stream = BytesIO()
    still = drawing.frames[drawing.still]
    match file_format:
        case "jpeg":
            still.save(stream, "JPEG", quality=_JPEG_QUALITY, exif=_exif(alt_text), xmp=_xmp(alt_text))
        case "png":
            text = PngImagePlugin.PngInfo()
            text.add_itxt("Description", alt_text)
            text.add_itxt("XML:com.adobe.xmp", _xmp(alt_text).decode())
            still.save(stream, "PNG", compress_level=_PNG_LEVEL, pnginfo=text)
        case "webp":
            first, more = drawing.frames[0], _moving(drawing.frames[1:], drawing.durations)
            tags: dict[str, Any] = {"exif": _exif(alt_text), "xmp": _xmp(alt_text)}
            first.save(stream, "WEBP", quality=_WEBP_QUALITY, method=_WEBP_METHOD, **tags, **more)
        case "gif":
            first, *others = _indexed(drawing.frames)
            first.save(stream, "GIF", comment=alt_text.encode(), **_moving(others, drawing.durations))
    return stream.getvalue()


def alt_text(name: str, texts: list[str] | tuple[str, ...]) -> str:
    """Return the description of a meme: the template's name and the texts on it."""
    said = " / ".join(" ".join(text.split()) for text in texts if text.strip())
    return f"{name}: {said}" if said else name


def _moving(others: Any, durations: tuple[int, ...]) -> dict[str, Any]:
    if not others:
        return {}
    return {"save_all": True, "append_images": list(others), "duration": list(durations), "loop": 0}


def _indexed(frames: tuple[Image.Image, ...]) -> list[Image.Image]:
    """Reduce frames to one palette, of all frames: of small copies of some of them, side by side."""
    chosen = frames[:: max(1, len(frames) // 8)]
    side = 160
    sample = Image.new("RGB", (side * len(chosen), side))
    for place, frame in enumerate(chosen):
        sample.paste(frame.resize((side, side), Image.Resampling.NEAREST), (place * side, 0))
    palette = sample.quantize(_COLOURS, Image.Quantize.MEDIANCUT)
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]


def _xmp(text: str) -> bytes:
    return _XMP.format(escape(text)).encode()


def _exif(text: str) -> bytes:
    """Return EXIF with nothing but a description, as UTF-8, which Pillow does not write for this tag."""
    value = text.encode() + b"\0"
    # A TIFF of one entry: tag, type 2 (text), length, and the offset of the text behind the directory.
    entry = struct.pack("<HHII", _IMAGE_DESCRIPTION, 2, len(value), 26) if len(value) > 4 else b""
    if not entry:
        entry = struct.pack("<HHI4s", _IMAGE_DESCRIPTION, 2, len(value), value)
        value = b""
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0) + value
