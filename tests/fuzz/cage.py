"""Calls of parsers in a process of its own: a crash, a hang or a bomb there is a result here.

The parent sends bytes; the child parses them and answers with what happened, its processor time and its peak memory.
"""

import multiprocessing
import resource
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from tests.fuzz.parsers import Parser

# Seconds of a call after which the child is killed, and what it may map.
_HANG = 60.0
_MAPPED = 12 * 2**30
_START = 120.0


class Outcome(NamedTuple):
    """What a call did. fault: the exception that it must not raise, or how the process ended; "" if neither."""

    fault: str
    seconds: float = 0.0
    peak_mb: float = 0.0


class Cage:
    """A process that calls the parsers of `tests.fuzz.parsers`; `folder` is a copy of that of `samples.prepare`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def call(self, parser: str, data: bytes) -> Outcome:
        """Parse `data` with the parser of that name; after a crash or a hang, the next call has a new process."""
        self._connection.send((parser, data))
        fault = f"no end after {_HANG:.0f} s"
        with suppress(EOFError, ConnectionResetError):
            if self._connection.poll(_HANG):
                outcome: Outcome = self._connection.recv()
                return outcome
        self._process.join(1)
        if self._process.exitcode is not None:
            fault = f"the process ended with exit code {self._process.exitcode}"
        self.__exit__(None, None, None)
        self._start()
        return Outcome(fault)

    def _start(self) -> None:
        self._connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs, self.folder), daemon=True)
        self._process.start()
        theirs.close()
        assert self._connection.poll(_START), "the process of the parser does not start"
        self._connection.recv()


def _serve(connection: Connection, folder: Path) -> None:
    """Parse what comes until the connection closes."""
    from tests.fuzz.parsers import PARSERS

    resource.setrlimit(resource.RLIMIT_AS, (_MAPPED, _MAPPED))
    connection.send("ready")
    known = set[str]()
    with suppress(EOFError):
        while True:
            name, data = connection.recv()
            parser = PARSERS[name]
            if name not in known:
                known.add(name)
                with suppress(Exception):  # what is imported first is not the input's cost
                    parser.read(folder, parser.samples(folder)[0])
            connection.send(_attempt(parser, folder, data))


def _attempt(parser: "Parser", folder: Path, data: bytes) -> Outcome:
    fault, before = "", _reset_peak()
    began = time.process_time()
    try:
        parser.read(folder, data)
    except parser.refusals as error:
        if not str(error) or "\n" in str(error):
            fault = f"{type(error).__name__} whose message is not one line: {str(error)!r}"
    except BaseException:  # noqa: BLE001 -- also SystemExit
        fault = traceback.format_exc(limit=-8)
    return Outcome(fault, time.process_time() - began, (_peak_kb() - before) / 1024)


def _reset_peak() -> int:
    """Set the peak of memory back to what is used; return that in KiB."""
    with suppress(OSError):  # a kernel without it
        Path("/proc/self/clear_refs").write_text("5")
    return _peak_kb()


def _peak_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
