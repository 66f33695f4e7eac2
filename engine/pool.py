"""A pure function over many partitions: in this process, in local processes, or on a Ray cluster.

Each local worker has a pipe of its own and works on one partition at a time, so a worker that
dies is known by the partition it took with it, and no more partitions exist at once than workers.
"""

import multiprocessing
import os
import pickle
import reprlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from configs.errors import MemeloomError
from configs.progress import Progress, Silent
from configs.schema import Engine
from engine.outcome import Outcome, attempt, be_single_threaded

P = TypeVar("P")
R = TypeVar("R")
_ENDING_SECONDS = 5.0


def run_partitions(
    function: Callable[[P], R], partitions: Iterable[P], engine: Engine, progress: Progress | None = None
) -> Iterator[R]:
    """Yield ``function(partition)`` for every partition, in the order in which they are done.

    function: pure, and found by its name at the top of a module; it must be safe to run again.
    partitions: picklable; taken one by one as workers become free, so they may be endless.
    engine: how many workers, and where. One local worker is this process itself.
    progress: advanced by one for each partition that is done; its caller starts and finishes it.

    Ending the iteration early, an error, or Ctrl-C ends all workers.

    Raises:
        MemeloomError: a worker died (the partition is named), or there is no Ray to work on.
        Exception: whatever `function` raised, as it was, with the worker's traceback as a note.
    """
    progress = progress or Silent()
    if engine.kind == "ray":
        from engine.ray_pool import run_on_ray

        results = run_on_ray(function, partitions, engine)
    elif (workers := engine.workers or available_cores()) == 1:
        results = map(function, partitions)
    else:
        results = _run_locally(function, partitions, workers)
    for result in results:
        progress.advance(1)
        yield result


def available_cores() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Worker(Generic[P]):
    """A process, our end of its pipe, and what it works on."""

    process: SpawnProcess
    pipe: Connection
    number: int
    partition: P

    def death(self) -> MemeloomError:
        self.process.join(_ENDING_SECONDS)
        code = self.process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        return MemeloomError(
            f"a worker {how} at partition {self.number} ({reprlib.repr(self.partition)}); "
            "if memory ran out, set engine.workers lower"
        )


def _run_locally(function: Callable[[P], R], partitions: Iterable[P], workers: int) -> Iterator[R]:
    context = multiprocessing.get_context("spawn")
    # Pickled here, so that a worker limits the threads of its libraries before it loads them.
    packed = pickle.dumps(function)
    numbered = enumerate(partitions, start=1)
    at_work: dict[Connection, _Worker[P]] = {}
    processes: list[SpawnProcess] = []
    try:
        while len(at_work) < workers and (following := next(numbered, None)):
            pipe, far_end = context.Pipe()
            process = context.Process(target=_work, args=(far_end, packed), daemon=True)
            process.start()
            processes.append(process)
            far_end.close()
            at_work[pipe] = _Worker(process, pipe, *following)
            _hand_over(at_work[pipe])
        while at_work:
            for worker in _ready(at_work):
                result: R = _receive(worker).result()
                del at_work[worker.pipe]
                if following := next(numbered, None):
                    at_work[worker.pipe] = _Worker(worker.process, worker.pipe, *following)
                    _hand_over(at_work[worker.pipe])
                else:
                    worker.pipe.close()
                yield result
    finally:
        for worker in at_work.values():
            worker.process.terminate()
            worker.pipe.close()
        _end(processes)


def _hand_over(worker: _Worker[P]) -> None:
    try:
        worker.pipe.send(worker.partition)
    except BrokenPipeError:
        raise worker.death() from None


def _ready(at_work: dict[Connection, _Worker[P]]) -> list[_Worker[P]]:
    sentinels = {worker.process.sentinel: worker for worker in at_work.values()}
    ready = wait([*at_work, *sentinels])
    pipes = [at_work[item] for item in ready if isinstance(item, Connection)]
    return pipes or [sentinels[item] for item in ready if isinstance(item, int)]


def _receive(worker: _Worker[P]) -> Outcome[Any]:
    try:
        outcome: Outcome[Any] | None = worker.pipe.recv() if worker.pipe.poll() else None
    except (EOFError, ConnectionResetError):
        outcome = None
    if outcome is None:
        raise worker.death()
    return outcome


def _end(processes: list[SpawnProcess]) -> None:
    for process in processes:
        process.join(_ENDING_SECONDS)
        if process.is_alive():
            process.kill()
            process.join(_ENDING_SECONDS)
        process.close()


def _work(pipe: Connection, packed: bytes) -> None:
    # Ctrl-C reaches every process of a terminal; the parent ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    be_single_threaded()
    try:
        while True:
            pipe.send_bytes(attempt(packed, pipe.recv()))
    except (EOFError, BrokenPipeError):
        return  # nothing more to do, or nobody to do it for


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
