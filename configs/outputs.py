"""Atomic outputs: a file or folder is complete or absent, even after kill -9 or a full disk."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.locks import exclusive

# What `tempfile` puts between a prefix and a suffix is eight of these.
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp", re.DOTALL)


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`; fsync and rename it on success, remove it on any error.

    durable: False saves the fsync for a file that can be rebuilt and whose reader notices damage: after a power failure
    it may be damaged, after a kill it is not.

    Raises:
        MemeloomError: the disk is full, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        if durable:
            fsync_folder(path.parent)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise unwritable(path, error) from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed `atomic_file` calls from `folder`, not recursively, ignoring errors.

    The caller holds the folder's lock, so that none is still being written.
    """
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


@contextmanager
def replace_folder(path: Path, kind: str, is_replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` when the block succeeds.

    It is built beside `path` under a lock. After a kill, `path` is the former folder or missing; the next call restores
    it (`restore_folder`).

    Args:
        path: the folder to replace; links are followed.
        kind: what the folder holds, with its article ("a dataset"), for messages.
        is_replaceable: returns True for a folder of that kind. A missing or empty `path` is always replaced.

    Raises:
        MemeloomError: `path` holds something else, another process is writing it, or the disk refuses.
    """
    try:
        path = path.resolve()
        with folder_lock(path):
            restore_folder(path)
            if not path.name or (path.exists() and not _is_empty(path) and not is_replaceable(path)):
                raise MemeloomError(f"{path} exists and is not {kind}; choose another output folder")
            building, former = _beside(path)
            building.mkdir()
            try:
                yield building
                fsync_folder(building)
                if path.exists():
                    path.rename(former)
                building.rename(path)
                fsync_folder(path.parent)
            finally:
                restore_folder(path)
    except OSError as error:
        raise unwritable(path, error) from error


def restore_folder(path: Path) -> bool:
    """Clean up after killed `replace_folder` calls, restoring a former folder. Returns False if nothing was to do.

    The caller holds `folder_lock`.
    """
    building, former = _beside(path)
    found = building.exists() or former.exists()
    if former.exists() and not path.exists():
        former.rename(path)
    for folder in (building, former):
        if folder.exists():
            shutil.rmtree(folder)
    return found


def folder_lock(path: Path) -> AbstractContextManager[None]:
    """Lock the output folder `path` against other processes that replace it. See `exclusive`."""
    return exclusive(path, f"another process is writing {path}; wait until it has ended")


def _beside(path: Path) -> tuple[Path, Path]:
    """Return where a new folder is built, and where the old one waits during the swap."""
    return path.with_name(f".{path.name}.building"), path.with_name(f".{path.name}.former")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, atomically."""
    with atomic_file(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path`, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def cache_folder() -> Path:
    """Return the folder for files that can be rebuilt: `$MEMELOOM_CACHE`, else ``~/.cache/memeloom``."""
    return Path(os.environ.get("MEMELOOM_CACHE") or Path.home() / ".cache" / "memeloom")


def fsync_folder(folder: Path) -> None:
    """Make a rename inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def temporary_files() -> Iterator[None]:
    """Raise MemeloomError instead of OSError in a block or function that uses temporary files ($TMPDIR)."""
    try:
        yield
    except OSError as error:
        raise unwritable(Path(tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"), error) from error  # noqa: S108


def unwritable(path: Path, error: OSError) -> MemeloomError:
    """Return the error of a file that cannot be written."""
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return MemeloomError(f"cannot write {path}: {what}")
