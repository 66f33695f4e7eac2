"""A script that reads a video on standard input and writes its first frame as a PNG to standard output.

`catalog.frames` runs it as ``python -I video_frame.py MAX_PIXELS``. The kernel enforces its limits.
"""

import os
import resource
import sys

TOO_MANY_PIXELS = 3
NO_FRAME = 4

_MEMORY = 2 * 1024**3
_SECONDS = 10
# FFmpeg may open only this file, and only as one of these formats.
_OPTIONS = "format_whitelist;mov,mp4,m4a,3gp,3g2,mj2,matroska,webm|protocol_whitelist;file"


def main() -> int:
    """Return the exit code: 0, `TOO_MANY_PIXELS` or `NO_FRAME`."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _SECONDS),
                        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):  # fmt: skip
        resource.setrlimit(limit, (most, most))
    os.environ |= {
        "OPENCV_FFMPEG_CAPTURE_OPTIONS": _OPTIONS, "OPENCV_FFMPEG_LOGLEVEL": "-8", "OPENCV_LOG_LEVEL": "SILENT",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    import cv2

    video = cv2.VideoCapture("/dev/stdin", cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1, cv2.CAP_PROP_HW_ACCELERATION, 0])
    if not video.isOpened():
        return NO_FRAME
    size = video.get(cv2.CAP_PROP_FRAME_WIDTH) * video.get(cv2.CAP_PROP_FRAME_HEIGHT)
    if size > int(sys.argv[1]):
        return TOO_MANY_PIXELS
    read, pixels = video.read()
    if not read:
        return NO_FRAME
    sys.stdout.buffer.write(cv2.imencode(".png", pixels)[1].tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
