"""The process that stands between us and a browser, so that none of it outlives us.

It starts chromedriver, whose browser gets a folder for all that it writes, and waits. When its input ends
(whoever held the other end is gone, kill -9 included), when chromedriver ends, or on SIGTERM, it kills every
process that came of it and removes the folder. Should it be killed itself, chromedriver dies with it, the browser
with the pipe between the two, and `sweep` finds the folder by the lock that nobody holds any more.

Run as a script, with the standard library only: ``python -I -S keeper.py FOLDER DRIVER [ARGUMENT …]``.
It says what chromedriver says, one line of JSON before that: {"folder": PATH}.
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
# A folder this young may belong to a keeper that is about to lock it.
_YOUNG_SECONDS = 10.0


def keep(parent: Path, command: list[str]) -> None:
    """Run `command` until it, or our input, ends; then end all that came of it."""
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
            _say(json.dumps({"folder": str(folder)}).encode() + b"\n")
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
    """Every process that came of `process` and is a child of it or of one of these."""
    children: dict[int, list[int]] = {}
    for number in _processes():
        with suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may itself hold spaces and brackets.
            parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(number)
    found, left = [], [process]
    while left:
        fresh = children.get(left.pop(), [])
        found += fresh
        left += fresh
    return found


def sweep(parent: Path) -> list[Path]:
    """Remove what keepers left that were killed, and the browsers that still use it. Returns the folders."""
    return [folder for folder in parent.glob(f"{PREFIX}*") if clear(folder, young_seconds=_YOUNG_SECONDS)]


def clear(folder: Path, *, young_seconds: float = 0.0) -> bool:
    """Remove a keeper's folder and every process of ours that uses it, unless a keeper lives in it."""
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
    """Hold the folder; the lock goes with the process. Raises BlockingIOError if somebody else does."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)


def _watch(driver: "subprocess.Popen[bytes]") -> None:
    """Pass on what chromedriver says until it, or whoever wants it, is gone."""
    assert driver.stdout is not None
    said = driver.stdout.fileno()
    open_ends = [0, said]
    while True:
        ready, _, _ = select.select(open_ends, [], [], _LOOK_SECONDS)
        if 0 in ready and not os.read(0, 65536):
            return
        if said in ready:
            data = os.read(said, 65536)
            if not data:
                open_ends.remove(said)
            _say(data)
        if _reap(driver.pid):
            return


def _say(data: bytes) -> None:
    with suppress(OSError):
        os.write(1, data)


def _reap(wanted: int) -> bool:
    """Bury the dead; whether `wanted` is one of them."""
    with suppress(ChildProcessError):
        while number := os.waitpid(-1, os.WNOHANG)[0]:
            if number == wanted:
                return True
    return False


def _end_all() -> None:
    """Kill what came of us, also what appears meanwhile, and bury it."""
    end = time.monotonic() + _REAP_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < end:
        for number in left:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        _reap(0)
        time.sleep(0.01)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep(Path(sys.argv[1]), sys.argv[2:])
