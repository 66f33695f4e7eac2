"""Pictures as bytes: stills, short loops as GIF and MP4, and files told apart by a remark that nobody sees."""

import hashlib
import struct
import tempfile
import zlib
from io import BytesIO
from pathlib import Path

from PIL import Image

_QUALITY = 85
_LOOP_WIDTH = 240
_LOOP_DEGREES = (0, 3, 0, -3)
_LOOP_COLOURS = 64
_FRAME_SECONDS = 0.2


def encode(picture: Image.Image, suffix: str = "jpg") -> bytes:
    """`picture` in the format that `suffix` names: a JPEG, a PNG, or a loop in which it swings, as GIF or MP4."""
    match suffix:
        case "gif":
            return _gif(picture)
        case "mp4":
            return _mp4(picture)
    stream = BytesIO()
    if suffix == "png":
        picture.save(stream, "PNG", compress_level=1)
    else:
        picture.save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()


def _frames(picture: Image.Image) -> list[Image.Image]:
    """The picture itself, small, and then turned a little to either side; even sides, as video wants them."""
    height = round(picture.height * _LOOP_WIDTH / picture.width) // 2 * 2
    small = picture.resize((_LOOP_WIDTH, height), Image.Resampling.BICUBIC)
    return [small.rotate(angle, Image.Resampling.BICUBIC) for angle in _LOOP_DEGREES]


def _gif(picture: Image.Image) -> bytes:
    first, *others = [frame.quantize(_LOOP_COLOURS) for frame in _frames(picture)]
    stream = BytesIO()
    milliseconds = int(_FRAME_SECONDS * 1000)
    first.save(stream, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return stream.getvalue()


def _mp4(picture: Image.Image) -> bytes:
    import cv2
    import numpy as np

    frames = _frames(picture)
    with tempfile.TemporaryDirectory(prefix="memeloom-demo-") as folder:
        path = Path(folder) / "loop.mp4"
        film = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 1 / _FRAME_SECONDS, frames[0].size)
        for frame in frames * 2:
            film.write(cv2.cvtColor(np.asarray(frame), cv2.COLOR_RGB2BGR))
        film.release()
        return path.read_bytes()


def remark(data: bytes, suffix: str, text: str) -> bytes:
    """The same picture in other bytes: with a digest of `text` where the format has room for remarks."""
    note = hashlib.sha256(text.encode()).hexdigest().encode()
    match suffix:
        case "png":
            body = b"tEXt" + b"Comment\0" + note
            chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
            return data[:-12] + chunk + data[-12:]  # ahead of the last chunk
        case "gif":
            return data[:-1] + b"\x21\xfe" + bytes([len(note)]) + note + b"\0" + data[-1:]
        case "mp4":
            return data + struct.pack(">I", len(note) + 8) + b"free" + note
    (length,) = struct.unpack(">H", data[4:6])  # of the JFIF segment, which must stay the first
    return data[: 4 + length] + b"\xff\xfe" + struct.pack(">H", len(note) + 2) + note + data[4 + length :]
