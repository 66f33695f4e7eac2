"""Threads for what blocks, with a bound on the calls that wait for them and on the time that closing them takes."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeAlias, TypeVar

from memeloom.serve.http.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")
_Task: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class Threads:
    """Runs blocking calls of the event loop.

    Python's own executor waits at the end of the process for every call that runs, however long it takes; these threads
    do not keep a process alive.

    Args:
        workers: number of threads.
        queue: calls that may wait for one.
        name: of the threads.
    """

    def __init__(self, workers: int, queue: int, name: str) -> None:
        self._most, self._busy = workers + queue, 0
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function in one of the threads and return its result.

        Raises:
            Problem: 503, too many calls are waiting already.
        """
        if self._busy >= self._most:
            raise Problem(503, None, "the server is busy; try again", headers={"Retry-After": "1"})
        self._busy += 1
        future: Future[T] = Future()
        self._tasks.put((future, lambda: function(*args, **kwargs)))
        work = asyncio.wrap_future(future)
        # The thread stays occupied when the request is cancelled.
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def close(self, seconds: float) -> bool:
        """Drop the calls that wait; return whether those that run ended within `seconds`."""
        while not self._tasks.empty():
            task = self._tasks.get()
            if task is not None:
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _done(self, work: "asyncio.Future[Any]") -> None:
        self._busy -= 1
        if not work.cancelled():
            work.exception()  # retrieved: the request may be gone

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 -- the caller gets it
                future.set_exception(error)
            del task, future, call  # else they are held until the next one
