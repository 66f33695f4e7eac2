"""Inside a worker, be it a local process or a Ray actor: unpickle a function, call it, pickle what came of it."""

import ctypes
import gc
import math
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from memeloom.configs.errors import MemeloomError

R = TypeVar("R")

_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
_OBJECTS_PER_COLLECTION = 50_000
# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's mallopt(3).
_THRESHOLDS = (-1, -3)
_KEPT_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """One message of a worker: a `value`, or the `error` that the function raised.

    too_large: the worker holds more memory than it may; the supervisor must stop it.
    """

    value: R | None = None
    error: Exception | None = None
    too_large: bool = False

    def result(self) -> R:
        """Return the value. Raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return cast("R", self.value)


class Runner:
    """Runs a pickled function in a worker; every method returns a pickled `Outcome`.

    Args:
        packed: a pickled function without arguments, which returns the function to call with each partition.
        seconds: the kernel kills a worker whose partition takes more than twice as long; None for no limit.
        memory_mb: above it, the outcome says `too_large`; None for no limit.
    """

    def __init__(self, packed: bytes, seconds: float | None, memory_mb: int | None) -> None:
        self._packed = packed
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._function: Callable[[Any], Any] | None = None

    def open(self) -> bytes:
        """Prepare for the first partition."""
        be_single_threaded()
        _return_freed_memory()
        try:
            self._function = pickle.loads(self._packed)()  # noqa: S301 our parent process wrote it
        except Exception as error:  # noqa: BLE001 it is raised again in the parent
            return pack_error(error)
        # Partitions hold many thousand objects and few cycles: looking for these took 5 % of the time of a build.
        gc.freeze()
        gc.set_threshold(_OBJECTS_PER_COLLECTION)
        return pack_value(None)

    def run(self, partition: object) -> bytes:
        """Call the function with `partition`."""
        if self._function is None:
            raise RuntimeError("open() comes first")
        # The parent kills us in time. If the parent is gone and native code hangs, only the kernel can.
        signal.alarm(math.ceil(2 * self._seconds) + 1 if self._seconds else 0)
        try:
            value = self._function(partition)
        except Exception as error:  # noqa: BLE001 it is raised again in the parent
            return pack_error(error)
        finally:
            signal.alarm(0)
        return pack_value(value, too_large=self._memory_mb is not None and resident_mb() > self._memory_mb)


def pack_value(value: object, *, too_large: bool = False) -> bytes:
    """Pickle a result; if it cannot be pickled, the error that says so."""
    try:
        return pickle.dumps(Outcome(value=value, too_large=too_large))
    except Exception as error:  # noqa: BLE001 it is raised again in the parent
        return pack_error(error)


def pack_error(error: Exception) -> bytes:
    """Pickle `error`, or an error with its text if that cannot be done; the worker's traceback is added as a note."""
    note = "in a worker:\n" + "".join(traceback.format_exception(error)).rstrip()
    if not _is_picklable(error):
        of_ours = isinstance(error, MemeloomError)
        error = MemeloomError(str(error)) if of_ours else RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    failed: Outcome[Any] = Outcome(error=error)
    return pickle.dumps(failed)


def _is_picklable(error: Exception) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 pickled by ourselves
    except Exception:  # noqa: BLE001 an error may define its own pickling
        return False
    return type(copy) is type(error) and str(copy) == str(error)


def be_single_threaded() -> None:
    """Limit every numeric library of this process to one thread; there is a process for each core already."""
    for name in _THREAD_LIMITS:
        os.environ.setdefault(name, "1")
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)


def _return_freed_memory() -> None:
    """Let glibc return arrays to the system when they are freed: it keeps those below 32 MB, a tenth of a worker."""
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        for option in _THRESHOLDS:
            libc.mallopt(option, _KEPT_BYTES)


def resident_mb() -> float:
    """Return the memory that this process holds now; its peak where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 if sys.platform.startswith("linux") else 1024**2)
    return pages * resource.getpagesize() / 1024**2
