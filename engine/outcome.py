"""What a worker sends back: a result, or the exception that the function raised."""

import pickle
import traceback
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from memeloom.configs.errors import MemeloomError

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """One of the two: `value`, or `error`. `leaving`: the worker holds too much memory, and ends."""

    value: R | None = None
    error: Exception | None = None
    leaving: bool = False

    def result(self) -> R:
        """The value. Raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return cast("R", self.value)


def packed_value(value: object, leaving: bool = False) -> bytes:
    """A result, pickled; if that cannot be done, the error that says so."""
    try:
        return pickle.dumps(Outcome(value=value, leaving=leaving))
    except Exception as error:  # noqa: BLE001 it is raised again where the results are awaited
        return packed_error(error)


def packed_error(error: Exception) -> bytes:
    """`error`, or its text if it cannot be pickled and back, with its traceback as a note."""
    note = "in a worker:\n" + "".join(traceback.format_exception(error)).rstrip()
    if not _survives(error):
        of_ours = isinstance(error, MemeloomError)
        error = MemeloomError(str(error)) if of_ours else RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    failed: Outcome[Any] = Outcome(error=error)
    return pickle.dumps(failed)


def _survives(error: Exception) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 pickled in the same breath
    except Exception:  # noqa: BLE001 what runs here is the error's own code
        return False
    return type(copy) is type(error) and str(copy) == str(error)
