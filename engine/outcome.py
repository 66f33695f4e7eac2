"""What a worker sends back: a result, or the exception that the function raised."""

import os
import pickle
import sys
import traceback
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from configs.errors import MemeloomError

R = TypeVar("R")
_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """One of the two: `value`, or `error`."""

    value: R | None = None
    error: Exception | None = None

    def result(self) -> R:
        """The value. Raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return cast("R", self.value)


def be_single_threaded() -> None:
    """Let every numeric library of this process use one thread: there is a process for each core already."""
    for name in _THREAD_LIMITS:
        os.environ.setdefault(name, "1")
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)


def attempt(packed: bytes, partition: object) -> bytes:
    """Call the pickled function `packed` with `partition`; the pickled `Outcome`."""
    try:
        return pickle.dumps(Outcome(value=_unpack(packed)(partition)))
    except Exception as error:  # noqa: BLE001 it is raised again where the results are awaited
        failed: Outcome[Any] = Outcome(error=_portable(error))
        return pickle.dumps(failed)


@lru_cache(maxsize=1)
def _unpack(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301 the process that started this one wrote it


def _portable(error: Exception) -> Exception:
    """`error`, or its text if it cannot be pickled and back, with its traceback as a note."""
    note = "in a worker:\n" + "".join(traceback.format_exception(error)).rstrip()
    if not _survives(error):
        of_ours = isinstance(error, MemeloomError)
        error = MemeloomError(str(error)) if of_ours else RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error


def _survives(error: Exception) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 pickled in the same breath
    except Exception:  # noqa: BLE001 what runs here is the error's own code
        return False
    return type(copy) is type(error) and str(copy) == str(error)
