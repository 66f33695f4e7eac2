"""A pure function over many partitions: in this process, in local processes, or on a Ray cluster.

`run_partitions` is for work of our own: a worker that dies ends it. `try_partitions` is for what
strangers made: a partition that kills its worker, or takes too long, is an answer like any other.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from memeloom.configs.progress import Progress, Silent
from memeloom.configs.schema import Engine
from memeloom.engine.crew import Crew, Guard, Lost, Supervisor
from memeloom.engine.standing import Standing

P = TypeVar("P")
R = TypeVar("R")


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
    if engine.kind == "local" and (engine.workers or available_cores()) == 1:
        results: Iterator[R] = map(function, partitions)
    else:
        results = (result for _, result in _supervised(partial(_unchanged, function), partitions, engine, None))
    for result in results:
        progress.advance(1)
        yield result


def try_partitions(
    opened: Callable[[], Callable[[P], R]], partitions: Iterable[P], engine: Engine, guard: Guard
) -> Iterator[tuple[P, R | Lost]]:
    """Yield every partition with its result, or with how it was lost, in the order in which they are done.

    opened: called once in each worker, before its first partition; what it returns is called with each.
        It goes to the workers pickled, once: what all partitions need belongs there.
    engine: one local worker is another process, too.
    guard: what a partition may take of its worker. Who takes more is replaced, and so is who dies.

    Raises:
        MemeloomError: workers cannot get ready, or die of every partition; there is no Ray to work on.
        Exception: whatever `opened` or its function raised.
    """
    return _supervised(opened, partitions, engine, guard)


class Workers:
    """Workers that stay for several rounds of work; see `open_workers`."""

    def __init__(self, crew: Crew | None) -> None:
        self._crew = crew

    def run(self, function: Callable[[P], R], partitions: Iterable[P]) -> Iterator[R]:
        """As `run_partitions`; one round must have ended before the next begins."""
        if self._crew is None:
            yield from map(function, partitions)
            return
        calls = ((function, partition) for partition in partitions)
        with closing(Supervisor(self._crew, calls, None).run()) as done:
            for _, outcome in done:
                if isinstance(outcome, Lost):
                    raise TypeError("a worker is not lost without a guard")
                yield outcome.result()


@contextmanager
def open_workers(engine: Engine) -> Iterator[Workers]:
    """Workers for work of our own in several rounds, started once and when first needed.

    engine: as for `run_partitions`. At the end, and on any error, all workers end.
    """
    if engine.kind == "local" and (engine.workers or available_cores()) == 1:
        yield Workers(None)
        return
    with _crew(pickle.dumps(partial(_unchanged, _call)), engine, None) as crew:
        standing = Standing(crew)
        try:
            yield Workers(standing)
        finally:
            standing.end()


def _call(call: tuple[Callable[[P], R], P]) -> R:
    function, partition = call
    return function(partition)


def available_cores() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _supervised(
    opened: Callable[[], Callable[[P], R]], partitions: Iterable[P], engine: Engine, guard: Guard | None
) -> Iterator[tuple[P, Any]]:
    # Pickled here, so that a worker limits the threads of its libraries before it loads them.
    packed = pickle.dumps(opened)
    with _crew(packed, engine, guard) as crew, closing(Supervisor(crew, partitions, guard).run()) as done:
        for partition, outcome in done:
            yield partition, outcome if isinstance(outcome, Lost) else outcome.result()


def _crew(packed: bytes, engine: Engine, guard: Guard | None) -> AbstractContextManager[Crew]:
    if engine.kind == "ray":
        from memeloom.engine.ray_pool import ray_crew

        return ray_crew(packed, engine, guard)
    from memeloom.engine.local import LocalCrew

    return nullcontext(LocalCrew(packed, engine.workers or available_cores(), guard))


def _unchanged(function: Callable[[P], R]) -> Callable[[P], R]:
    return function
