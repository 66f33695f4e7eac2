"""A folder that is replaced as a whole: readers see the former dataset or the new one, never half of one."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import fsync_folder
from memeloom.dataset.manifest import MANIFEST


def work_folder(path: Path) -> Path:
    """Where builds of `path` keep what they may go on from."""
    path = path.resolve()
    return path.with_name(f".{path.name}.work")


def remove_work(path: Path) -> bool:
    """Remove what builds of `path` left beside it: it holds captions. False if there was nothing.

    Raises:
        MemeloomError: a build is writing `path`, or the disk refuses.
    """
    path = path.resolve()
    building, former = (path.with_name(f".{path.name}.{what}") for what in ("building", "former"))
    left = [folder for folder in (work_folder(path), building, former) if folder.exists()]
    if not left:
        return False
    try:
        with _locked(path):
            _clean_up(path, building, former)
            _remove(work_folder(path))
    except OSError as error:
        raise MemeloomError(f"cannot remove {left[0]}: {error.strerror or error}") from error
    return True


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder; when the block ends without an error it takes the place of `path`.

    Killed at any moment, `path` is the former dataset or missing; what was left over is cleaned up, and a
    former dataset that was just being replaced comes back, when the next build begins. `path` is replaced
    only if it is missing, empty or a dataset.

    Raises:
        MemeloomError: `path` holds something else, another build is writing it, or the disk refuses.
    """
    path = path.resolve()
    building, former = (path.with_name(f".{path.name}.{what}") for what in ("building", "former"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            _clean_up(path, building, former)
            _check_replaceable(path)
            building.mkdir()
            try:
                yield building
                fsync_folder(building)
                if path.exists():
                    path.rename(former)
                building.rename(path)
                fsync_folder(path.parent)
            finally:
                _clean_up(path, building, former)
    except OSError as error:
        raise MemeloomError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the right to build `path`; the system takes it back when the process dies."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MemeloomError(f"another build is writing {path}; wait until it has ended") from None
        yield


def _clean_up(path: Path, building: Path, former: Path) -> None:
    """Remove what a killed build left, and bring back the dataset that it was about to replace."""
    _remove(building)
    if former.exists() and not path.exists():
        former.rename(path)
    _remove(former)


def _check_replaceable(path: Path) -> None:
    if path.exists() and not (path / MANIFEST).is_file() and not (path.is_dir() and not any(path.iterdir())):
        raise MemeloomError(f"{path} holds something else than a dataset; choose another dataset.output")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
