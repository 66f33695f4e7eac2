"""Blobs in a local folder: `ab/cd/<sha256>`."""

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from memeloom.catalog.blobs import BLOB_KEY, BlobStore, blob_key, check_key, verified
from memeloom.catalog.errors import BlobMissing, StoreDenied, StoreError, StoreFull
from memeloom.configs.outputs import fsync_folder

_PAIR = re.compile(r"[0-9a-f]{2}")
_ERRORS: Final[Mapping[int, tuple[type[StoreError], str]]] = MappingProxyType(
    dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), (StoreFull, "; make room and run again"))
    | dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), (StoreDenied, "; check its owner and rights"))
)


class FolderBlobs(BlobStore):
    """A `BlobStore` in `folder`, created with the first blob.

    A blob is written to a temporary file, fsynced and renamed; processes that store the same blob replace equal bytes.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def put(self, data: bytes, key: str | None = None) -> str:
        key = key or blob_key(data)
        path = self._path(key)
        with self._mapped("write"):
            if _has_size(path, len(data)):
                # A fresh time keeps a sweep of unreferenced blobs from deleting it before we refer to it.
                with suppress(PermissionError):
                    os.utime(path)
            else:
                _make_folder(path.parent)
                _write(path, data)
            fsync_folder(path.parent)
        return key

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._mapped("read"):
            try:
                return verified(path.read_bytes(), key, path)
            except FileNotFoundError:
                raise BlobMissing(f"{self._folder}: no blob {key}") from None

    def has(self, key: str) -> bool:
        with self._mapped("read"):
            return self._path(key).is_file()

    def delete(self, key: str) -> bool:
        path = self._path(key)
        with self._mapped("delete"):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            fsync_folder(path.parent)
        return True

    def age(self, key: str) -> float | None:
        with self._mapped("read"):
            try:
                return time.time() - self._path(key).stat().st_mtime
            except FileNotFoundError:
                return None

    def keys(self) -> Iterator[str]:
        with self._mapped("list"):
            for first in _listed(self._folder, _PAIR):
                for second in _listed(self._folder / first, _PAIR):
                    yield from _listed(self._folder / first / second, BLOB_KEY)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _path(self, key: str) -> Path:
        check_key(key, self._folder)
        return self._folder / key[:2] / key[2:4] / key

    @contextmanager
    def _mapped(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind, remedy = _ERRORS.get(error.errno or 0, (StoreError, ""))
            raise kind(f"{self._folder}: cannot {action} blobs: {error.strerror}{remedy}") from error


def _has_size(path: Path, size: int) -> bool:
    """Return whether the blob exists; one of another size is damaged and removed."""
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        return False
    if found != size:
        path.unlink(missing_ok=True)
        return False
    return True


def _make_folder(folder: Path) -> None:
    """Create `folder` durably: its name survives a power loss."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    fsync_folder(folder.parent)


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".put-{uuid4().hex}")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _listed(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if pattern.fullmatch(name))  # noqa: PTH208 (names, not paths)
    except (FileNotFoundError, NotADirectoryError):
        return []
