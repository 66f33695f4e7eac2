"""Start and stop server processes; each ends with its parent, even after kill -9."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.services.binaries import ServerError, environment


class Process:
    """One running server program, of the binaries in `root`.

    The kernel kills it when the thread that started it ends (PR_SET_PDEATHSIG, by setpriv).
    """

    def __init__(
        self, command: Sequence[str], root: Path, log: Path, extra: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command], env={**environment(root), **extra}, cwd=log.parent,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.pid = self._popen.pid

    def wait_until(self, ready: Callable[[], bool], seconds: float = 120) -> None:
        """Poll `ready` until it is true. Raises ServerError with the end of the log if the program ends or is late."""
        deadline = time.monotonic() + seconds
        while not ready():
            code = self._popen.poll()
            if code is not None or time.monotonic() > deadline:
                log = self._log.read_text(errors="replace").strip()[-500:].replace("\n", " | ")
                raise ServerError(f"{self._log.stem} is not ready after {seconds:g} s (exit code {code}): {log}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._popen.kill()
        self._popen.wait()


class Server:
    """A server program on a free port of 127.0.0.1, with a folder for its files, deleted by `stop`.

    root: its binaries. extra: added to its environment.
    """

    process: Process

    def __init__(self, root: Path, extra: Mapping[str, str] = MappingProxyType({})) -> None:
        self._root, self._extra = root, extra
        self.port = free_port()
        # Unix sockets need a short path.
        self._folder = Path(tempfile.mkdtemp(prefix="ml-", dir="/tmp"))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def folder(self) -> Path:
        """Its files."""
        return self._folder

    def command(self) -> list[str]:
        """Return the command that runs the server."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it (again) on its port and its files, and wait until it accepts connections."""
        log = self._folder / f"{type(self).__name__}.log"
        self.process = Process(self.command(), self._root, log, self._extra)
        self.process.wait_until(lambda: answers(self.port))

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.process.kill()

    def stop(self) -> None:
        """Kill it and delete its files."""
        if hasattr(self, "process"):
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return True if something listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
