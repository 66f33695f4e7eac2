"""Atomic outputs: a file is there whole or not at all, even after kill -9 or a full disk."""

import errno
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from memeloom.configs.errors import MemeloomError

# What `tempfile` puts between a prefix and a suffix is eight of these.
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp", re.DOTALL)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` for writing; on success it takes that name, durably.

    The bytes are fsynced before the rename and the folder after it. On any error the
    temporary file is removed and `path` is as it was.

    Raises:
        MemeloomError: the disk is full, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        fsync_folder(path.parent)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise _unwritable(path, error) from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what `atomic_file` left in `folder` where its process was killed; not in the folders within.

    Nobody may be writing there: whoever calls holds the folder's lock. What cannot be removed stays.
    """
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, atomically."""
    with atomic_file(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path`, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def fsync_folder(folder: Path) -> None:
    """Make a rename inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> MemeloomError:
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return MemeloomError(f"cannot write {path}: {what}")
