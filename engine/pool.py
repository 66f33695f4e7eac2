"""Run a pure function over many partitions.

`run_partitions` is for trusted work: a worker crash ends the run. `try_partitions` is for untrusted input: a crash or
timeout is a result.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.schema import Engine
from memeloom.engine.supervisor import Guard, Lost, Pool, Supervisor
from memeloom.engine.worker import Runner

P = TypeVar("P")
R = TypeVar("R")


def run_partitions(
    function: Callable[[P], R], partitions: Iterable[P], engine: Engine, progress: Progress = SILENT
) -> Iterator[R]:
    """Yield ``function(partition)`` for every partition, in order of completion.

    Ending the iteration early, an error, or Ctrl-C ends all workers.

    Args:
        function: pure, importable by name, and safe to run again.
        partitions: picklable; read lazily, so they may be infinite.
        engine: how many workers, and where. One local worker is this process.
        progress: advanced by one for each partition.

    Raises:
        MemeloomError: a worker crashed (the message names the partition), or there is no Ray cluster.
        Exception: whatever `function` raised, with the worker's traceback as a note.
    """
    if _is_this_process(engine):
        results: Iterator[R] = map(function, partitions)
    else:
        results = (result for _, result in _supervised(partial(_identity, function), partitions, engine, None))
    for result in results:
        progress.advance(1)
        yield result


def try_partitions(
    opened: Callable[[], Callable[[P], R]], partitions: Iterable[P], engine: Engine, guard: Guard
) -> Iterator[tuple[P, R | Lost]]:
    """Yield every partition with its result or its loss, in order of completion.

    Args:
        opened: called once in each worker; returns the function of a partition. Pickled once per worker, so it holds
            what all partitions share.
        partitions: as for `run_partitions`.
        engine: as for `run_partitions`, but one local worker is another process, too.
        guard: limits of a worker. One that exceeds them, or crashes, is replaced.

    Raises:
        MemeloomError: workers do not start, or every partition crashes them; there is no Ray cluster.
        Exception: whatever `opened` or its function raised.
    """
    return _supervised(opened, partitions, engine, guard)


class Workers:
    """Workers that stay for several rounds of work; see `open_workers`."""

    def __init__(self, supervisor: Supervisor | None) -> None:
        self._supervisor = supervisor

    def run(self, function: Callable[[P], R], partitions: Iterable[P]) -> Iterator[R]:
        """Run one round, as `run_partitions` does. A round must have ended before the next begins."""
        if self._supervisor is None:
            yield from map(function, partitions)
            return
        calls = ((function, partition) for partition in partitions)
        with closing(self._supervisor.run(calls)) as done:
            for _, outcome in done:
                if isinstance(outcome, Lost):
                    raise TypeError("without a guard no partition is lost")
                yield outcome.result()


@contextmanager
def open_workers(engine: Engine) -> Iterator[Workers]:
    """Yield workers for several rounds of trusted work. They start when first needed and all end with the block."""
    if _is_this_process(engine):
        yield Workers(None)
        return
    packed = pickle.dumps(partial(_identity, _call))
    with _open_pool(packed, engine, None) as pool, closing(Supervisor(pool, None, keep_idle=True)) as supervisor:
        yield Workers(supervisor)


def available_cores() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_this_process(engine: Engine) -> bool:
    return engine.kind == "local" and (engine.workers or available_cores()) == 1


def _supervised(
    opened: Callable[[], Callable[[P], R]], partitions: Iterable[P], engine: Engine, guard: Guard | None
) -> Iterator[tuple[P, Any]]:
    # Pickled here, so that a worker can limit the threads of its libraries before it loads them.
    packed = pickle.dumps(opened)
    with (
        _open_pool(packed, engine, guard) as pool,
        closing(Supervisor(pool, guard)) as supervisor,
        closing(supervisor.run(partitions)) as done,
    ):
        for partition, outcome in done:
            yield partition, outcome if isinstance(outcome, Lost) else outcome.result()


def _open_pool(packed: bytes, engine: Engine, guard: Guard | None) -> AbstractContextManager[Pool]:
    runner = Runner(packed, guard.seconds if guard else None, guard.memory_mb if guard else None)
    if engine.kind == "ray":
        from memeloom.engine.ray_pool import ray_pool

        return ray_pool(engine, runner)
    from memeloom.engine.local_pool import LocalPool

    return nullcontext(LocalPool(engine.workers or available_cores(), runner))


def _call(call: tuple[Callable[[P], R], P]) -> R:
    function, partition = call
    return function(partition)


def _identity(function: Callable[[P], R]) -> Callable[[P], R]:
    return function
