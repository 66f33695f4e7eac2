"""An engine that costs nothing and reads no text: the colour of the picture says what it does.

Each picture that it begins is a line in the file that `$FAKE_ENGINE` names: process id and picture.
"""

import ctypes
import io
import os
import signal
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from memeloom.configs.schema import Ocr
from memeloom.ocr.engines.contract import ReadFailed, Word

READ, CRASH, CRASH_ONCE, HANG, WAIT, BREAK, FAIL, GROW = range(8)
_held: list[bytes] = []


class FakeEngine:
    """Does as the picture's blue says; its green and red are the number that it reads."""

    name = "fake"

    def read(self, picture: NDArray[np.uint8]) -> list[Word]:
        action, *number = (int(value) for value in picture[0, 0])
        file = log()
        tried = file.read_text().count(f" {number}\n") if file.exists() else 0
        with file.open("a") as lines:
            lines.write(f"{os.getpid()} {number}\n")
        match action:
            case 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 2 if not tried:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 3:
                ctypes.PyDLL(None).sleep(600)  # native code that holds Python's lock
            case 4:
                while not log().with_suffix(".go").exists():
                    time.sleep(0.01)
            case 5:
                raise ValueError("a bug")
            case 6:
                raise ReadFailed("engine failed", "on request")
            case 7:
                _held.append(b"x" * (400 << 20))
        texts = ("WHEN", "YOU", "READ", "THIS")
        return [Word(text, 0.1 + 0.2 * place, 0.1, 0.18, 0.1, 99.0, 0) for place, text in enumerate(texts)]


def open_fake(_: Ocr) -> FakeEngine:
    return FakeEngine()


def log() -> Path:
    return Path(os.environ["FAKE_ENGINE"])


def begun() -> list[tuple[int, str]]:
    """Process id and picture of each reading that was begun."""
    lines = log().read_text().splitlines() if log().exists() else []
    return [(int(pid), picture) for pid, _, picture in (line.partition(" ") for line in lines)]


def release() -> None:
    """Let the engines that wait go on."""
    log().with_suffix(".go").touch()


def picture_for(action: int, number: int) -> bytes:
    """A picture for this engine."""
    stream = io.BytesIO()
    Pillow.new("RGB", (40, 30), (number % 256, number // 256, action)).save(stream, "PNG")
    return stream.getvalue()
