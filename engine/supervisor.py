"""The supervisor: gives partitions to workers and replaces those that crash, hang or grow too large.

A `Pool` starts the workers, as processes or actors. A worker has one partition at a time, so a crash is charged to one
partition, and memory holds no more partitions than workers.
"""

import reprlib
import time
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from memeloom.configs.errors import MemeloomError
from memeloom.engine.worker import Outcome

P = TypeVar("P")

_START_SECONDS = 300.0
# After this many failures in a row the cause is not a partition: failed starts, lost first partitions.
_MAX_FAILED_STARTS, _MAX_FIRST_LOSSES = 3, 10


@dataclass(frozen=True, slots=True)
class Guard:
    """Limits of a worker: `seconds` for one partition, `memory_mb` held between two partitions."""

    seconds: float
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A partition whose worker crashed or was stopped. `detail` is a line for the user."""

    reason: Literal["timeout", "worker died"]
    detail: str


class WorkerDied(Exception):
    """A worker ended by itself; the text says how: ``was killed by SIGKILL``."""


class Worker(Protocol):
    """The supervisor's end of one worker, which sends one message when ready and one for each partition."""

    def send(self, partition: object) -> None:
        """Send a partition to work on. If the worker is dead, the next `receive` raises."""

    def receive(self) -> Outcome[Any]:
        """Return the message that `Pool.wait` announced. Raises WorkerDied."""

    def stop(self) -> None:
        """Tell an idle worker to end."""

    def kill(self) -> None:
        """End the worker at once."""


class Pool(Protocol):
    """A source of workers. `size` is the largest number at once."""

    size: int

    def start(self) -> Worker:
        """Start a worker."""

    def wait(self, workers: Collection[Worker], seconds: float | None) -> list[Worker]:
        """Wait until some of `workers` have sent a message or died; return those, or none after `seconds`."""

    def close(self) -> None:
        """Wait until all workers have ended."""


_Task: TypeAlias = tuple[int, Any]


class Supervisor:
    """Runs partitions on the workers of `pool`; `close` it.

    guard: a worker's limits; without them, a crash ends the run. keep_idle: keep idle workers for the next run.
    """

    def __init__(self, pool: Pool, guard: Guard | None, *, keep_idle: bool = False) -> None:
        self._pool = pool
        self._guard = guard
        self._keep_idle = keep_idle
        self._tasks: Iterator[_Task] = iter(())
        self._waiting: deque[_Task] = deque()
        self._workers: set[Worker] = set()  # all but the idle ones
        self._idle: list[Worker] = []
        self._starting: dict[Worker, float] = {}
        self._busy: dict[Worker, tuple[_Task, float]] = {}
        self._failed_starts = 0
        self._first_losses: int | None = 0

    def run(self, partitions: Iterable[P]) -> Generator[tuple[P, Outcome[Any] | Lost], None, None]:
        """Yield each partition with its outcome, in order of completion. A run must have ended before the next.

        Raises:
            MemeloomError: workers do not start, or (without a guard) one crashed.
            Exception: whatever opening a worker raised.
        """
        self._tasks = enumerate(partitions, start=1)
        try:
            while self._fill():
                for worker in self._pool.wait([*self._starting, *self._busy], self._seconds_to_deadline()):
                    if worker in self._starting:
                        self._handle_ready(worker)
                    else:
                        yield self._collect(worker)
                yield from self._kill_late_workers()
        finally:
            for worker in list(self._workers):
                self._kill(worker)
            for state in (self._waiting, self._starting, self._busy):
                state.clear()

    def close(self) -> None:
        """End all workers."""
        for worker in self._idle:
            worker.stop()
        self._pool.close()

    def _fill(self) -> bool:
        """Find or start a worker for each free place and partition. Returns False when all are done."""
        while len(self._waiting) + len(self._busy) < self._pool.size and (task := next(self._tasks, None)):
            self._waiting.append(task)
        while self._waiting and self._idle:
            worker = self._idle.pop()
            self._workers.add(worker)
            self._assign(worker)
        while len(self._starting) < len(self._waiting):
            worker = self._pool.start()
            self._workers.add(worker)
            self._starting[worker] = time.monotonic()
        return bool(self._waiting or self._busy)

    def _handle_ready(self, worker: Worker) -> None:
        del self._starting[worker]
        try:
            worker.receive().result()
        except WorkerDied as death:
            self._fail_start(worker, f"{death} before it was ready")
        else:
            self._failed_starts = 0
            self._assign(worker)

    def _assign(self, worker: Worker) -> None:
        task = self._waiting.popleft() if self._waiting else next(self._tasks, None)
        if task is None:
            if self._keep_idle:
                self._workers.discard(worker)
                self._idle.append(worker)
            else:
                self._stop(worker)
            return
        worker.send(task[1])
        self._busy[worker] = task, time.monotonic()

    def _collect(self, worker: Worker) -> tuple[Any, Outcome[Any] | Lost]:
        task, _ = self._busy.pop(worker)
        try:
            outcome = worker.receive()
        except WorkerDied as death:
            return self._report_lost(worker, task, "worker died", f"a worker {death}")
        self._first_losses = None
        if outcome.too_large:
            self._stop(worker)
        elif outcome.error is None:
            self._assign(worker)
        return task[1], outcome

    def _kill_late_workers(self) -> Iterator[tuple[Any, Lost]]:
        now = time.monotonic()
        for worker in [worker for worker, since in self._starting.items() if now - since >= _START_SECONDS]:
            del self._starting[worker]
            self._fail_start(worker, f"was not ready within {_START_SECONDS:g} s")
        if self._guard is None:
            return
        late = [worker for worker, (_, since) in self._busy.items() if now - since >= self._guard.seconds]
        # The consumer of our results may have paused for long: a worker with a message waiting is not late.
        for worker in set(late).difference(self._pool.wait(late, 0) if late else ()):
            task, _ = self._busy.pop(worker)
            yield self._report_lost(worker, task, "timeout", f"a worker took more than {self._guard.seconds:g} s")

    def _report_lost(
        self, worker: Worker, task: _Task, reason: Literal["timeout", "worker died"], how: str
    ) -> tuple[Any, Lost]:
        self._kill(worker)
        number, partition = task
        line = f"{how} at partition {number} ({reprlib.repr(partition)})"
        if self._guard is None:
            raise MemeloomError(f"{line}; if memory ran out, set engine.workers lower")
        if self._first_losses is not None:
            self._first_losses += 1
            if self._first_losses >= _MAX_FIRST_LOSSES:
                raise MemeloomError(f"nothing was done: the first {_MAX_FIRST_LOSSES} workers were lost; {line}")
        return partition, Lost(reason, line)

    def _fail_start(self, worker: Worker, how: str) -> None:
        self._kill(worker)
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            raise MemeloomError(f"a worker {how}; if memory ran out, set engine.workers lower")

    def _stop(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.stop()

    def _kill(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.kill()

    def _seconds_to_deadline(self) -> float | None:
        ends = [since + _START_SECONDS for since in self._starting.values()]
        if self._guard is not None:
            ends += [since + self._guard.seconds for _, since in self._busy.values()]
        return max(min(ends) - time.monotonic(), 0.0) if ends else None
