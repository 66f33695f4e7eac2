"""What goes on inside a worker, be it a local process or an actor of Ray's: open once, then call."""

import math
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memeloom.engine.crew import Guard
from memeloom.engine.outcome import packed_error, packed_value

_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


class Duty:
    """The work of one worker process.

    packed: a pickled function without arguments. What it returns is called with each partition.
    guard: the limits of a partition, if there are any; a worker that holds too much after one says that it leaves.
    """

    def __init__(self, packed: bytes, guard: Guard | None) -> None:
        self._packed = packed
        self._guard = guard
        self._function: Callable[[Any], Any] | None = None

    def open(self) -> bytes:
        """Get ready for the first partition; a pickled `Outcome`."""
        be_single_threaded()
        try:
            self._function = pickle.loads(self._packed)()  # noqa: S301 the process that started this one wrote it
        except Exception as error:  # noqa: BLE001 it is raised again where the results are awaited
            return packed_error(error)
        return packed_value(None)

    def work(self, partition: object) -> bytes:
        """Call the function; a pickled `Outcome`."""
        if self._function is None:
            raise RuntimeError("a worker is opened before it works")
        # Whoever started us ends us in time. If they are gone and native code hangs, only the kernel is left.
        signal.alarm(math.ceil(2 * self._guard.seconds) + 1 if self._guard else 0)
        try:
            value = self._function(partition)
        except Exception as error:  # noqa: BLE001 it is raised again where the results are awaited
            return packed_error(error)
        finally:
            signal.alarm(0)
        return packed_value(value, leaving=self._guard is not None and resident_mb() > self._guard.memory_mb)


def be_single_threaded() -> None:
    """Let every numeric library of this process use one thread: there is a process for each core already."""
    for name in _THREAD_LIMITS:
        os.environ.setdefault(name, "1")
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)


def resident_mb() -> float:
    """The memory that this process holds now; where the system does not tell, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 if sys.platform.startswith("linux") else 1024**2)
    return pages * resource.getpagesize() / 1024**2
