"""Locks between processes, held on a file beside what they protect."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memeloom.configs.errors import MemeloomError


@contextmanager
def exclusive(target: Path, busy: str, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock file ``.NAME.lock`` beside `target`. The system releases it when the process dies.

    Links are followed first, so two names of one file share one lock. The lock file stays.

    Args:
        target: the file or folder to protect. It need not exist; its parent folder is created.
        busy: message of the error when another process holds the lock.
        wait_seconds: how long to wait for that process.

    Raises:
        MemeloomError: another process holds the lock, or the lock file cannot be created or locked.
    """
    from filelock import FileLock, Timeout  # 0.2 s to import

    try:
        resolved = target.resolve()
        path = resolved.with_name(f".{resolved.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)
        # Without blocking, a lock that this thread holds already is busy like any other; waiting for it is refused.
        lock.acquire(timeout=wait_seconds, blocking=wait_seconds > 0, poll_interval=0.02)
    except Timeout:
        raise MemeloomError(busy) from None
    except OSError as error:
        raise MemeloomError(f"cannot lock {target}: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:  # a loop of links before Python 3.13; a path without a name
        raise MemeloomError(f"cannot lock {target}: {error}") from error
    try:
        yield
    finally:
        lock.release()
