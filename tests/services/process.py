"""Start and stop server processes; each ends with its parent, even after kill -9."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.services.binaries import ServerError, environment


class Process:
    """One running server program.

    The kernel kills it when the thread that started it ends (PR_SET_PDEATHSIG, by setpriv).
    """

    def __init__(self, command: list[str], root: Path, log: Path, extra: dict[str, str] | None = None) -> None:
        self.log = log
        self._name = Path(command[0]).name
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                env={**environment(root), **(extra or {})}, cwd=log.parent,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        """Poll `ready` until it is true. A program that ends or is late is an error that shows the end of its log."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._popen.poll() is not None:
                raise ServerError(f"{self._name} ended with {self._popen.returncode}: {self._log_tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{self._name} was not ready within {seconds:g} s: {self._log_tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._popen.kill()
        self._popen.wait()

    def stop(self, seconds: float = 5) -> None:
        """Terminate it; kill it if it does not end."""
        self._popen.terminate()
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace").strip()[-500:].replace("\n", " | ")


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Return True if something listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def run_folder(kind: str) -> Path:
    """A private folder for a server's files, with a path short enough for Unix sockets."""
    return Path(tempfile.mkdtemp(prefix=f"ml-{kind}-", dir="/tmp"))


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str], root: Path, extra: dict[str, str] | None = None, seconds: float = 60) -> str:
    """Run a command-line tool of a server."""
    done = subprocess.run(
        command, env={**environment(root), **(extra or {})}, capture_output=True, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ServerError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
