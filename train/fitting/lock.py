"""One training a folder."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.outputs import remove_leftovers
from memeloom.train.fitting.tensorboard import FOLDER

_REMEDY = "choose another train.output"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to train in `folder`; the system takes it back when the process dies.

    The folder is made if it is missing, and what a training that was killed left half written there is removed.

    Raises:
        ConfigError: the root of the file system is no place for a training.
        MemeloomError: another process holds the right, or the place is no folder, cannot be written or locked.
    """
    place = _writable(folder)
    path = place.with_name(f".{place.name}.lock")
    try:
        lock = path.open("w")
    except OSError as error:
        raise MemeloomError(f"cannot write {path}: {error.strerror or error}; {_REMEDY}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MemeloomError(
                f"another training writes {folder}; wait until it has ended, or choose another train.output"
            ) from None
        except OSError as error:  # some network file systems know no locks
            raise MemeloomError(f"cannot lock {path}: {error.strerror or error}; {_REMEDY}") from error
        for written in (place, place / FOLDER):
            remove_leftovers(written)
        yield


def _writable(folder: Path) -> Path:
    """The folder that `folder` leads to, where a file was written to see that it can be; better now than in hours."""
    try:
        place = folder.resolve()
        if not place.name:
            raise ConfigError(f"a training cannot have {place} for its folder; {_REMEDY}")
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place, buffering=0) as proof:
            proof.write(b"\0")
    except FileExistsError:
        raise MemeloomError(f"cannot write {folder}: it is no folder; {_REMEDY}") from None
    except RuntimeError as error:  # that of pathlib until Python 3.13
        raise MemeloomError(f"cannot write {folder}: {error}; {_REMEDY}") from None
    except OSError as error:
        raise MemeloomError(f"cannot write {folder}: {error.strerror or error}; {_REMEDY}") from error
    return place
