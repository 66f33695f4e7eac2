"""One training a folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import MemeloomError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to train in `folder`; the system takes it back when the process dies.

    Raises:
        MemeloomError: another process holds it, or the place cannot be written.
    """
    path = folder.with_name(f".{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise MemeloomError(f"cannot write {path}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MemeloomError(
                f"another training writes {folder}; wait until it has ended, or choose another train.output"
            ) from None
        yield
