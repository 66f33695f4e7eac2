"""Workers that are processes of this machine, each with its own pipe."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from memeloom.configs.logs import LogFormatter, log_to_stderr, stderr_formatter
from memeloom.engine.supervisor import Worker, WorkerDied
from memeloom.engine.worker import Outcome, Runner

_END_SECONDS = 5.0


class LocalPool:
    """Up to `size` processes, each with a `runner`. They end with this process, however it ends."""

    def __init__(self, size: int, runner: Runner) -> None:
        self.size = size
        self._runner = runner
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []

    def start(self) -> Worker:
        """Start a process."""
        pipe, far_end = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(far_end, self._runner, stderr_formatter()), daemon=True)
        process.start()
        far_end.close()
        self._processes = [other for other in self._processes if other.is_alive()] + [process]
        return _LocalWorker(process, pipe)

    def wait(self, workers: Collection[Worker], seconds: float | None) -> list[Worker]:
        """Wait for a message in a pipe or the end of a process."""
        ours = [worker for worker in workers if isinstance(worker, _LocalWorker)]
        waited = {worker.pipe: worker for worker in ours} | {worker.process.sentinel: worker for worker in ours}
        return list(dict.fromkeys(waited[item] for item in wait(list(waited), seconds)))  # type: ignore[index]

    def close(self) -> None:
        """Wait until all processes have ended; kill those that do not end."""
        for process in self._processes:
            process.join(_END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join(_END_SECONDS)
            process.close()


class _LocalWorker:
    def __init__(self, process: SpawnProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe

    def send(self, partition: object) -> None:
        try:
            self.pipe.send(partition)
        except (BrokenPipeError, ConnectionResetError):
            return  # it crashed; the next `receive` reports it

    def receive(self) -> Outcome[Any]:
        try:
            if self.pipe.poll():
                outcome: Outcome[Any] = self.pipe.recv()
                return outcome
        except (EOFError, ConnectionResetError):
            pass
        self.process.join(_END_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            raise WorkerDied(f"was killed by {signal.Signals(-code).name}")
        raise WorkerDied(f"ended with exit code {code}")

    def stop(self) -> None:
        self.pipe.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(_END_SECONDS)
        self.pipe.close()


def _serve(pipe: Connection, runner: Runner, formatter: LogFormatter | None) -> None:
    if formatter is not None:
        log_to_stderr(formatter)
    # Ctrl-C reaches every process of the terminal; the parent stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        pipe.send_bytes(runner.open())
        while True:
            pipe.send_bytes(runner.run(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return  # the parent closed its end or died


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
