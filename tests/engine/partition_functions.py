"""Functions that the tests run in workers, importable by name as `run_partitions` requires, and helpers around them."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memeloom.configs.schema import Engine
from tests.waiting import wait_until


def local(workers: int | None) -> Engine:
    return Engine(kind="local", workers=workers, ray_address="auto")


def is_running(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


class OddError(Exception):
    """Cannot be pickled and back: its constructor wants more than its text."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")


def square(number: int) -> int:
    return number * number


def process_id(_: int) -> int:
    return os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise KeyError("three")
    return number


def fail_oddly(number: int) -> int:
    raise OddError("broken", f"place {number}")


def return_a_function(number: int) -> object:
    return lambda: number


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def exit_at_three(number: int) -> None:
    if number == 3:
        sys.exit(7)


def wait_for_each_other(folder: str) -> int:
    """Return only when two processes have called it."""
    (Path(folder) / str(os.getpid())).touch()
    wait_until(lambda: len(list(Path(folder).iterdir())) >= 2)
    return os.getpid()


def sleep_long(folder: str) -> None:
    """Write this process's id into `folder` and sleep for longer than any test waits."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def hang_in_native_code(folder: str) -> None:
    """Like `sleep_long`, but in C holding the GIL: no thread and no signal handler of this process runs."""
    (Path(folder) / str(os.getpid())).touch()
    ctypes.PyDLL(None).sleep(600)


def die_beside_a_sleeper(partition: tuple[str, bool]) -> None:
    """One call sleeps; the other kills its process as soon as the sleeper sleeps."""
    folder, sleeps = partition
    if sleeps:
        sleep_long(folder)
    wait_until(lambda: any(Path(folder).iterdir()))
    os.kill(os.getpid(), signal.SIGKILL)


def crash_or_hang(partition: tuple[str, int]) -> int:
    """Square a number, crash or hang."""
    fate, number = partition
    if fate == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fate == "hang":
        ctypes.PyDLL(None).sleep(600)
    return number * number


_leaked: list[bytes] = []


def leak(mb: int) -> int:
    """Leak `mb` megabytes; return the process id."""
    _leaked.append(b"x" * (mb << 20))
    return os.getpid()


def thread_limits(_: int) -> tuple[str | None, int]:
    import cv2

    return os.environ.get("OMP_NUM_THREADS"), int(cv2.getNumThreads())


def heavy_modules(_: int) -> list[str]:
    return sorted({"ray", "tensorflow", "cv2", "numpy", "scrapy"} & set(sys.modules))


def ready(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Open a worker that needs no preparation."""
    return function


def note_each_start(folder: str) -> Callable[[int], int]:
    """Write a file named after this process into `folder` when a worker is opened."""
    (Path(folder) / str(os.getpid())).touch()
    return process_id


def refuse_to_start() -> Callable[[int], int]:
    raise LookupError("no engine")


def die_at_the_start() -> Callable[[int], int]:
    os.kill(os.getpid(), signal.SIGKILL)
    return square
