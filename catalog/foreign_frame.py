"""A script that reads a video, AVIF or TIFF on standard input and writes its first frame as a PNG to standard output.

`catalog.frames` runs it as ``python -I foreign_frame.py FORMAT MAX_PIXELS``. The kernel enforces its limits.
"""

import io
import os
import resource
import sys

TOO_MANY_PIXELS = 3
NO_FRAME = 4
TRUNCATED = 5
NO_DECODER = 6

_MEMORY = 2 * 1024**3
_SECONDS = 10
# FFmpeg may open only this file, and only as one of these formats.
_OPTIONS = "format_whitelist;mov,mp4,m4a,3gp,3g2,mj2,matroska,webm|protocol_whitelist;file"
_PARTS = {"avif": "avif", "tiff": "libtiff"}
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def main() -> int:
    """Return the exit code: 0 or one of the above."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _SECONDS),
                        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):  # fmt: skip
        resource.setrlimit(limit, (most, most))
    form, most_pixels = sys.argv[1], int(sys.argv[2])
    return _still(form, most_pixels) if form in _PARTS else _video(most_pixels)


def _still(form: str, most_pixels: int) -> int:
    from PIL import Image, ImageOps, features

    if not features.check(_PARTS[form]):
        return NO_DECODER
    if form == "avif":
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    Image.MAX_IMAGE_PIXELS = None
    try:
        picture = Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=[form.upper()])
    except Exception:  # noqa: BLE001 -- Pillow raises many kinds for damaged files
        return NO_FRAME
    if picture.width * picture.height > most_pixels:
        return TOO_MANY_PIXELS
    try:
        upright = ImageOps.exif_transpose(picture)
        frame = upright if upright.mode in _PNG_MODES else upright.convert("RGB")
        frame.save(stream := io.BytesIO(), "PNG", exif=b"", icc_profile=None)
    except Exception:  # noqa: BLE001
        return TRUNCATED
    sys.stdout.buffer.write(stream.getvalue())
    return 0


def _video(most_pixels: int) -> int:
    os.environ |= {
        "OPENCV_FFMPEG_CAPTURE_OPTIONS": _OPTIONS, "OPENCV_FFMPEG_LOGLEVEL": "-8", "OPENCV_LOG_LEVEL": "SILENT",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    import cv2

    video = cv2.VideoCapture("/dev/stdin", cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1, cv2.CAP_PROP_HW_ACCELERATION, 0])
    if not video.isOpened():
        return NO_FRAME
    if video.get(cv2.CAP_PROP_FRAME_WIDTH) * video.get(cv2.CAP_PROP_FRAME_HEIGHT) > most_pixels:
        return TOO_MANY_PIXELS
    read, pixels = video.read()
    if not read:
        return NO_FRAME
    sys.stdout.buffer.write(cv2.imencode(".png", pixels)[1].tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
