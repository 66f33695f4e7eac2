"""Pictures to draw on: stills and animations decoded from untrusted bytes, frame by frame, within limits."""

from dataclasses import dataclass
from io import BytesIO
from typing import Final

from PIL import Image, ImageOps

from memeloom.catalog.errors import BadImage
from memeloom.catalog.images import BROKEN, load_picture

_ANIMATED: Final = ("GIF", "WEBP", "PNG")
_SHORTEST, _USUAL = 20, 100  # milliseconds a frame; browsers show frames without a duration for the latter
_LONGEST = 60_000


@dataclass(frozen=True)
class Picture:
    """A decoded picture.

    Attributes:
        frames: RGB images of one size; one for a still.
        durations: of each frame, in milliseconds; 0 for a still.
    """

    frames: tuple[Image.Image, ...]
    durations: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.frames[0].size

    @classmethod
    def of(cls, image: Image.Image) -> "Picture":
        """Return a still; transparency becomes white."""
        return cls((flatten(image),), (0,))


def open_picture(data: bytes, *, max_pixels: int, max_frames: int, still: bool = False) -> Picture:
    """Decode a JPEG, PNG, GIF, WebP, BMP or APNG, upright, transparency on white.

    Args:
        data: untrusted bytes.
        max_pixels: limit on the pixels of all frames together.
        max_frames: limit on their number.
        still: decode the first frame only.

    Raises:
        BadImage: `empty`, `not an image`, `too many pixels`, `too many scans`, `too many frames` or `truncated`.
    """
    first = flatten(load_picture(data, max_pixels=max_pixels))
    if still:
        return Picture((first,), (0,))
    try:
        with Image.open(BytesIO(data)) as opened:
            if opened.format in _ANIMATED and getattr(opened, "is_animated", False):
                return _animation(opened, max_pixels, max_frames)
    except BROKEN as error:
        raise BadImage("truncated", str(error)) from None
    return Picture((first,), (0,))


def flatten(picture: Image.Image) -> Image.Image:
    """Return a copy of `picture` as RGB, transparency on white."""
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    if picture.mode.startswith("I"):  # 16 bits
        picture = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    return picture.convert("RGB") if picture.mode != "RGB" else picture.copy()


def _animation(opened: Image.Image, max_pixels: int, max_frames: int) -> Picture:
    """Decode frames one by one, so that a file with too many is refused before all are decoded."""
    most = min(max_frames, max_pixels // (opened.width * opened.height))
    frames: list[Image.Image] = []
    durations: list[int] = []
    while True:
        try:
            opened.seek(len(frames))
        except EOFError:
            break
        if len(frames) == most:
            kind = "frames" if most == max_frames else "pixels"
            raise BadImage(f"too many {kind}", f"more than {most} frames of {opened.width} x {opened.height} pixels")
        opened.load()
        frames.append(flatten(ImageOps.exif_transpose(opened)))
        stated = int(opened.info.get("duration") or 0)
        durations.append(min(stated, _LONGEST) if stated >= _SHORTEST else _USUAL)
    return Picture(tuple(frames), tuple(durations) if len(frames) > 1 else (0,))
