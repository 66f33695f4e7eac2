"""Blobs in a local folder: `ab/cd/<sha256>`, written once, verified on every read."""

import errno
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.errors import BlobMissing, StoreCorrupt, StoreDenied, StoreError, StoreFull
from memeloom.configs.outputs import fsync_folder

_KEY = re.compile(r"[0-9a-f]{64}")
_PAIR = re.compile(r"[0-9a-f]{2}")


class FolderBlobs:
    """A `BlobStore` in `folder`, which is created when the first blob arrives.

    Only a whole blob ever gets its name: the bytes go to a temporary file in the same folder,
    are fsynced, and are then linked under the key, which fails if someone was faster.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def put(self, data: bytes, key: str | None = None) -> str:
        """Store `data` durably. Raises StoreFull, StoreDenied."""
        key = key or blob_key(data)
        path = self._path(key)
        with self._mapped("write", key):
            if self._holds(path, len(data)):
                # Whoever sweeps what nobody refers to must not take it from us: it is young again.
                with suppress(PermissionError):
                    os.utime(path)
                fsync_folder(path.parent)
                return key
            _make_folder(path.parent)
            _write_once(path, data)
        return key

    def get(self, key: str) -> bytes:
        """The bytes under `key`. Raises BlobMissing, StoreCorrupt, StoreDenied."""
        path = self._path(key)
        with self._mapped("read", key):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != key:
            raise StoreCorrupt(f"{path}: the bytes are not those that were stored; delete the file and fetch it again")
        return data

    def has(self, key: str) -> bool:
        """Whether a blob has that key."""
        with self._mapped("read", key):
            return self._path(key).is_file()

    def delete(self, key: str) -> bool:
        """Remove a blob; False if there was none."""
        path = self._path(key)
        with self._mapped("delete", key):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            fsync_folder(path.parent)
        return True

    def age(self, key: str) -> float | None:
        """Seconds since a blob was written; None if there is none."""
        with self._mapped("read", key):
            try:
                return time.time() - self._path(key).stat().st_mtime
            except FileNotFoundError:
                return None

    def keys(self) -> Iterator[str]:
        """All keys in order; one folder of them in memory."""
        with self._mapped("list", ""):
            for first in _listed(self._folder, _PAIR):
                for second in _listed(self._folder / first, _PAIR):
                    yield from _listed(self._folder / first / second, _KEY)

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise BlobMissing(f"{self._folder}: {key[:80]!r} is not a blob key (64 hexadecimal digits)")
        return self._folder / key[:2] / key[2:4] / key

    @staticmethod
    def _holds(path: Path, size: int) -> bool:
        # A blob whose size is wrong was damaged after it was stored; writing it again repairs it.
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            return False
        if found != size:
            path.unlink(missing_ok=True)
            return False
        return True

    @contextmanager
    def _mapped(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if action == "read":
                raise BlobMissing(f"{self._folder}: no blob {key}") from None
            raise StoreError(f"{self._folder}: cannot {action}: {error.strerror}") from error
        except OSError as error:
            line = f"{self._folder}: cannot {action} blobs: {error.strerror}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreFull(f"{line}; make room and run again") from error
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise StoreDenied(f"{line}; check its owner and rights") from error
            raise StoreError(line) from error


def _make_folder(folder: Path) -> None:
    """Create `folder` so that its name survives a power cut."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    fsync_folder(folder.parent)


def _write_once(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".put-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError as error:
            # Filesystems without hard links: a rename may overwrite, but only with the same bytes.
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                raise
            temporary.replace(path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _listed(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if pattern.fullmatch(name))  # noqa: PTH208 (names, not paths)
    except (FileNotFoundError, NotADirectoryError):
        return []
