"""The parent process of a browser, which kills it when the crawl ends.

It starts chromedriver, confines the browser's files to one folder, and waits. When its standard input closes (the
crawling process has ended, kill -9 included), chromedriver exits, or SIGTERM arrives, it kills all descendants and
removes the folder. If it is killed itself, the kernel kills chromedriver, the browser exits with their pipe, and
`sweep` later finds the folder by its released lock.

Run as a script, with the standard library only: ``python -I -S keeper.py FOLDER DRIVER [ARGUMENT …]``.
It prints one line of JSON, {"folder": PATH}, then chromedriver's output.
"""

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "memeloom-browser-"

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.5
_REAP_SECONDS = 10.0
# The keeper of a newer folder may not have locked it yet.
_YOUNG_SECONDS = 10.0


def keep(parent: Path, command: list[str]) -> None:
    """Run `command` until it exits or standard input closes, then kill all descendants."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_SET_CHILD_SUBREAPER, 1)
    me = os.getpid()

    def die_with_keeper() -> None:
        prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(1)

    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    with _locked(folder):
        try:
            (folder / "tmp").mkdir()
            _print(json.dumps({"folder": str(folder)}).encode() + b"\n")
            home = {"HOME": str(folder), "TMPDIR": str(folder / "tmp")}
            driver = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=os.environ | home, preexec_fn=die_with_keeper,  # noqa: PLW1509 -- one thread
            )  # fmt: skip
            _watch(driver)
        finally:
            _end_all()
            shutil.rmtree(folder, ignore_errors=True)


def descendants(process: int) -> list[int]:
    """Return all descendants of `process`."""
    children: dict[int, list[int]] = {}
    for number in _processes():
        with suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may contain spaces and brackets.
            parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(number)
    found, left = [], [process]
    while left:
        fresh = children.get(left.pop(), [])
        found += fresh
        left += fresh
    return found


def sweep(parent: Path) -> list[Path]:
    """Remove folders of killed keepers, and the browsers still using them. Returns the folders."""
    return [folder for folder in parent.glob(f"{PREFIX}*") if clear(folder, young_seconds=_YOUNG_SECONDS)]


def clear(folder: Path, *, young_seconds: float = 0.0) -> bool:
    """Remove a keeper's folder and kill the processes that use it. Returns False if the keeper is alive."""
    with suppress(OSError):
        facts = folder.stat()
        if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < young_seconds:
            return False
        with _locked(folder):
            for number in _processes():
                with suppress(OSError):
                    if f"={folder}/".encode() in Path(f"/proc/{number}/cmdline").read_bytes():
                        os.kill(number, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)
            return True
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder while this process lives. Raises BlockingIOError if it is locked."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)


def _watch(driver: "subprocess.Popen[bytes]") -> None:
    """Forward chromedriver's output until it exits or standard input closes."""
    assert driver.stdout is not None
    output = driver.stdout.fileno()
    open_ends = [0, output]
    while True:
        ready, _, _ = select.select(open_ends, [], [], _LOOK_SECONDS)
        if 0 in ready and not os.read(0, 65536):
            return
        if output in ready:
            data = os.read(output, 65536)
            if not data:
                open_ends.remove(output)
            _print(data)
        if _reap(driver.pid):
            return


def _print(data: bytes) -> None:
    with suppress(OSError):
        os.write(1, data)


def _reap(wanted: int) -> bool:
    with suppress(ChildProcessError):
        while number := os.waitpid(-1, os.WNOHANG)[0]:
            if number == wanted:
                return True
    return False


def _end_all() -> None:
    end = time.monotonic() + _REAP_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < end:
        for number in left:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        _reap(0)
        time.sleep(0.01)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _exit(_number: int, _frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep(Path(sys.argv[1]), sys.argv[2:])
