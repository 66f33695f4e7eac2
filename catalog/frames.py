"""Moving memes: the first frame stands for the whole, kept as a PNG that loses nothing.

GIF and WebP animations are Pillow's. Videos go through FFmpeg (inside OpenCV), which is a large decoder to show
strangers' bytes to: it runs in a process of its own, with limits on memory and time, and reads from a
temporary file without a name.
"""

import io
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memeloom.catalog.errors import BadImage
from memeloom.catalog.formats import Video, is_animated, is_page, is_whole, still_format, video_format
from memeloom.catalog.images import inspect_image, load_picture
from memeloom.catalog.records import Container, Image
from memeloom.catalog.video_frame import NO_FRAME, TOO_MANY_PIXELS

_PNG_EFFORT: Final = 6
_SECONDS: Final = 20
_READER: Final = Path(__file__).with_name("video_frame.py")
# What `video_frame.py` ends with; the kernel ends it with a signal when it has used up its processor time.
_REASONS: Final = {
    TOO_MANY_PIXELS: "too many pixels",
    NO_FRAME: "not an image",
    -signal.SIGXCPU: "too slow",
    -signal.SIGKILL: "too slow",
}

_TYPES = {
    "jpeg": ("image/jpeg", "image/jpg", "image/pjpeg"),
    "png": ("image/png", "image/x-png", "image/apng"),
    "gif": ("image/gif",),
    "webp": ("image/webp",),
    "bmp": ("image/bmp", "image/x-ms-bmp", "image/x-bmp"),
    "mp4": ("video/mp4", "video/quicktime", "video/x-m4v", "application/mp4"),
    "webm": ("video/webm", "video/x-matroska"),
}
_SAYS_NOTHING = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")


@dataclass(frozen=True, slots=True)
class Received:
    """A picture as it is kept: its bytes (a still's own; of what moves, the first frame's) and what they show.

    misdeclared: the sender named another type. That is common and harmless, as only the bytes are believed.
    """

    data: bytes
    image: Image
    misdeclared: bool = False


def receive(data: bytes, *, max_bytes: int, max_pixels: int, declared: str | None = None) -> Received:
    """Take what a host sent, still or moving, and say what is to be kept of it.

    declared: the type that the host named (a Content-Type), if any. It decides nothing.

    Raises:
        BadImage: as `inspect_image`, and `too slow` for a video that takes too long.
    """
    form = still_format(data) or video_format(data)
    said = (declared or "").partition(";")[0].strip().lower()
    if form is None and said:
        raise BadImage("not an image", f"{'a page' if is_page(data) else 'unknown bytes'}, declared as {said[:80]}")
    if container_of(data) is None:
        kept, image = data, inspect_image(data, max_bytes=max_bytes, max_pixels=max_pixels)
    else:
        kept, container = first_frame(data, max_bytes=max_bytes, max_pixels=max_pixels)
        image = inspect_image(kept, max_bytes=len(kept), max_pixels=max_pixels)
        image = image.model_copy(update={"frame_of": container})
    return Received(kept, image, said not in _SAYS_NOTHING and said not in _TYPES.get(form or "", ()))


def container_of(data: bytes) -> Container | None:
    """What kind of moving picture the bytes are, whatever anyone called them; None for a still (a GIF of one frame)."""
    form = still_format(data)
    if form in ("gif", "webp"):
        return form if is_animated(form, data) else None
    return None if form else video_format(data)


def first_frame(data: bytes, *, max_bytes: int, max_pixels: int) -> tuple[bytes, Container]:
    """The first frame of an animated GIF or WebP, an MP4 or a WebM, as a PNG, and which of them it was.

    The same bytes give the same PNG. Sizes are checked before a frame is decoded.

    Raises:
        BadImage: `empty`, `too many bytes`, `not an image` (also: a still), `too many pixels`, `truncated`
            or `too slow`.
    """
    if not data:
        raise BadImage("empty")
    if len(data) > max_bytes:
        raise BadImage("too many bytes", f"{len(data)} of {max_bytes}")
    container = container_of(data)
    if container is None:
        raise BadImage("not an image", "nothing that moves")
    if container in ("mp4", "webm"):
        return _video_frame(data, container, max_pixels), container
    picture = load_picture(data, max_pixels=max_pixels)
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=_PNG_EFFORT)
    return stream.getvalue(), container


def reader_command(max_pixels: int) -> list[str]:
    """The command that reads a video's first frame from standard input (`video_frame`)."""
    return [sys.executable, "-I", str(_READER), str(max_pixels)]


def _video_frame(data: bytes, container: Video, max_pixels: int) -> bytes:
    if not is_whole(container, data):
        raise BadImage("truncated", f"{container} without its end")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        try:
            done = subprocess.run(
                reader_command(max_pixels), stdin=file, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise BadImage("too slow", f"{container} of {len(data)} bytes") from None
    if done.returncode or not done.stdout:
        raise BadImage(_REASONS.get(done.returncode, "not an image"), f"no frame can be read of this {container}")
    return done.stdout
