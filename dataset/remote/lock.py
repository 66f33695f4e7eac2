"""A lock in an object store, for one writer of a dataset at a time.

Numbered files are created only if they do not exist, which every store decides for one of two writers. The owner is
who created the highest number; it rewrites its file at intervals. A file that was not rewritten for longer belongs to
a crashed owner: the next number takes over from it. A writer on the owner's machine sees at once that it crashed.
"""

import os
import threading
import time
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
def remote_lock(files: RemoteFiles, busy: str) -> Iterator[Callable[[], None]]:
    """Hold the lock whose numbered files are in the folder `files`.

    Yields a function that raises MemeloomError if the lock was lost: this process stood still, or was cut off from the
    store, for longer than two minutes. Call it before a change that must not happen twice.

    Args:
        files: a folder for the lock alone.
        busy: message of the error when another process holds the lock.

    Raises:
        MemeloomError: another process holds the lock.
        StoreError: the store failed.
    """
    name = _take(files, busy)
    beat = _Beat(files, name, busy)
    beat.start()
    try:
        yield beat.check
    finally:
        beat.stop()
        if beat.holds():
            files.delete([name])


def _take(files: RemoteFiles, busy: str) -> str:
    names = _numbers(files)
    if names and not _is_stale(files, names[-1]):
        raise MemeloomError(busy)
    name = f"{int(names[-1]) + 1 if names else 0:012}"
    if not files.create(name, _identity().encode()):
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
    """Return True if the process `owner`, an `_identity`, ran on this machine and does not run any longer."""
    machine, _, process = owner.rpartition(" ")
    if not machine or machine != _identity().rpartition(" ")[0]:
        return False
    return not Path(f"/proc/{process}").exists()


class _Beat(threading.Thread):
    """Rewrites the file `name` at intervals while it is the highest number."""

    def __init__(self, files: RemoteFiles, name: str, busy: str) -> None:
        super().__init__(name="dataset lock", daemon=True)
        self._files, self._name, self._busy = files, name, busy
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._lost = False

    def run(self) -> None:
        while not self._ended.wait(_BEAT_SECONDS):
            try:
                if not self._is_highest():
                    self._lost = True
                    return
                self._files.write(self._name, _identity().encode())
                self._last = time.monotonic()
            except MemeloomError:
                continue  # `check` tells if the store stays away for too long

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join()

    def check(self) -> None:
        """Raise MemeloomError if the lock was lost."""
        if self._lost or time.monotonic() - self._last > _STALE_SECONDS or not self._is_highest():
            self._lost = True
            raise MemeloomError(self._busy)

    def holds(self) -> bool:
        """Return True if the lock was not lost."""
        return not self._lost

    def _is_highest(self) -> bool:
        return _numbers(self._files)[-1:] == [self._name]
