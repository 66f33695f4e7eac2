"""Moving pictures are stored as their first frame, a lossless PNG.

Pillow decodes GIF and WebP. FFmpeg (in OpenCV) decodes videos; as a large decoder of untrusted bytes it runs in a
process of its own, with limits on memory and time, an unnamed input file and no environment.
"""

import io
import os
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
# Only what a program needs to start: our environment holds secrets.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
# By exit code of `video_frame.py`; the kernel kills it when its processor time is used up.
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
_UNSPECIFIC = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")


@dataclass(frozen=True, slots=True)
class Received:
    """A picture to store: the original bytes, or a moving picture's first frame, and their description.

    misdeclared: the host declared another type; common and harmless, as only the bytes count.
    """

    data: bytes
    image: Image
    misdeclared: bool = False


def receive(data: bytes, *, max_bytes: int, max_pixels: int, declared: str | None = None) -> Received:
    """Check the bytes that a host sent and return what to store.

    Args:
        data: a still or moving picture.
        max_bytes: limit on their number.
        max_pixels: limit on width times height.
        declared: the Content-Type header, for messages only.

    Raises:
        BadImage: as `inspect_image`, and `too slow` for a video.
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
    return Received(kept, image, said not in _UNSPECIFIC and said not in _TYPES.get(form or "", ()))


def container_of(data: bytes) -> Container | None:
    """Return the kind of moving picture that the bytes are; None for a still, such as a GIF with one frame."""
    form = still_format(data)
    if form in ("gif", "webp"):
        return form if is_animated(form, data) else None
    return None if form else video_format(data)


def first_frame(data: bytes, *, max_bytes: int, max_pixels: int) -> tuple[bytes, Container]:
    """Return the first frame of an animated GIF or WebP, an MP4 or a WebM as a PNG, deterministically, and the format.

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
        raise BadImage("not an image", "not a moving picture")
    if container in ("mp4", "webm"):
        return _video_frame(data, container, max_pixels), container
    picture = load_picture(data, max_pixels=max_pixels)
    stream = io.BytesIO()
    picture.save(stream, "PNG", compress_level=_PNG_EFFORT)
    return stream.getvalue(), container


def reader_command(max_pixels: int) -> list[str]:
    """Return the command that reads the first frame of the video on its standard input (`video_frame.py`)."""
    return [sys.executable, "-I", str(_READER), str(max_pixels)]


def _video_frame(data: bytes, container: Video, max_pixels: int) -> bytes:
    if not is_whole(container, data):
        raise BadImage("truncated", f"{container} without its end")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        try:
            done = subprocess.run(
                reader_command(max_pixels),
                stdin=file,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
        except subprocess.TimeoutExpired:
            raise BadImage("too slow", f"{container} of {len(data)} bytes") from None
    if done.returncode or not done.stdout:
        raise BadImage(_REASONS.get(done.returncode, "not an image"), f"no frame can be read of this {container}")
    return done.stdout
