"""A lock in an object store, for one writer of a dataset at a time.

Numbered files are created only if they do not exist, which every store decides for one of two writers. The owner is
who created the highest number; it rewrites its file at intervals. A file that was not rewritten for longer belongs to
a crashed owner: the next number takes over from it. A writer on the owner's machine sees at once that it crashed.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.remote.files import RemoteFiles

_BEAT_SECONDS = 20.0
_STALE_SECONDS = 120.0
_CLOCK = "clock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def remote_lock(files: RemoteFiles, busy: str, lost: str) -> Iterator[Callable[[], None]]:
    """Hold the lock whose numbered files are in the folder `files`.

    Yields a function that raises MemeloomError if the lock was lost: this process was suspended, or cut off from the
    store, for longer than two minutes. Call it before a change that must not happen twice.

    Args:
        files: a folder for the lock alone.
        busy: message of the error when another process holds the lock.
        lost: message of the error when the lock was lost.

    Raises:
        MemeloomError: another process holds the lock.
        StoreError: the store failed.
    """
    owner = f"{_identity()} {uuid.uuid4().hex}".encode()
    beat = _Beat(files, _take(files, owner, busy), owner, lost)
    beat.start()
    try:
        yield beat.check
    finally:
        beat.stop()


def _take(files: RemoteFiles, owner: bytes, busy: str) -> str:
    names = _numbers(files)
    if names and not _is_stale(files, names[-1]):
        raise MemeloomError(busy)
    name = f"{int(names[-1]) + 1 if names else 0:012}"
    # Another process may have taken a later number after the names were listed.
    if not files.create(name, owner) or _numbers(files)[-1:] != [name]:
        raise MemeloomError(busy)
    files.delete(names)
    return name


def _numbers(files: RemoteFiles) -> list[str]:
    return sorted(name for name in files.names() if name != _CLOCK)


def _is_stale(files: RemoteFiles, name: str) -> bool:
    if _has_crashed((files.read(name) or b"").decode(errors="replace")):
        return True
    # A file written now tells the server's time: the clocks of two machines may differ by minutes.
    files.write(_CLOCK, b"")
    now, written = files.written(_CLOCK), files.written(name)
    return now is None or written is None or (now - written).total_seconds() >= _STALE_SECONDS


def _identity() -> str:
    """Return this process's number, after what tells its machine from others; empty where that is not known."""
    try:
        # Processes in containers of one machine do not see each other.
        machine = f"{_BOOT.read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
    return f"{machine} {os.getpid()}"


def _has_crashed(owner: str) -> bool:
    """Return True if the process of `owner`, an `_identity` and a token, ran on this machine and has ended."""
    process = owner.rpartition(" ")[0]
    machine, _, number = process.rpartition(" ")
    if not machine or machine != _identity().rpartition(" ")[0]:
        return False
    return not Path(f"/proc/{number}").exists()


class _Beat(threading.Thread):
    """Rewrites the lock's file at intervals, as long as it is the `owner`'s and the highest number."""

    def __init__(self, files: RemoteFiles, file: str, owner: bytes, lost: str) -> None:
        super().__init__(name="dataset lock", daemon=True)
        self._files, self._file, self._owner, self._message = files, file, owner, lost
        self._ended = threading.Event()
        self._last = time.time()  # unlike the monotonic clock, it goes on while the machine sleeps
        self._lost = False

    def run(self) -> None:
        while not self._ended.wait(_BEAT_SECONDS):
            try:
                if not self._is_mine():
                    return
                self._files.write(self._file, self._owner)
                self._last = time.time()
            except MemeloomError:
                continue  # `check` raises if the store is unreachable for too long

    def stop(self) -> None:
        """End the thread, and release the lock if it is still held."""
        self._ended.set()
        self.join()
        if self._is_mine():
            self._files.delete([self._file])

    def check(self) -> None:
        """Raise MemeloomError if the lock was lost."""
        if not self._is_mine():
            raise MemeloomError(self._message)

    def _is_mine(self) -> bool:
        if not self._lost:
            # After so long another process may be about to take over.
            self._lost = time.time() - self._last > _STALE_SECONDS
        if not self._lost:
            self._lost = _numbers(self._files)[-1:] != [self._file] or self._files.read(self._file) != self._owner
        return not self._lost
