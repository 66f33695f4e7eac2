"""Workers under supervision: each partition goes to one that is free, and who dies, hangs or grows is replaced.

One loop for every kind of worker. A worker has one partition at a time, so one that ends is known by
the partition that it took with it, and no more partitions exist at once than workers.
"""

import reprlib
import time
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from memeloom.configs.errors import MemeloomError
from memeloom.engine.outcome import Outcome

P = TypeVar("P")

_STARTING_SECONDS = 300.0
# Workers that die before they are ready, or lose the first partitions of a run, do so for a reason of their own.
_STARTS_IN_VAIN, _LOST_IN_VAIN = 3, 10


@dataclass(frozen=True, slots=True)
class Guard:
    """seconds: a partition may take, once its worker is ready. memory_mb: a worker may hold between two of them."""

    seconds: float
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A partition that took its worker with it, or had to be stopped. `detail` is a line for the user."""

    reason: Literal["timeout", "worker died"]
    detail: str


class Died(Exception):
    """A worker is gone; the text says how: ``was killed by SIGKILL``."""


class Hand(Protocol):
    """One worker. It speaks once when it is ready, and once for each partition."""

    def give(self, partition: object) -> None:
        """Let it work on `partition`. It may be dead already: `hear` will tell."""
        ...

    def hear(self) -> Outcome[Any]:
        """What it said, after `Crew.wait` named it. Raises Died."""
        ...

    def leave(self) -> None:
        """There is no more work for it."""
        ...

    def end(self) -> None:
        """Stop it at once, whatever it does."""
        ...


class Crew(Protocol):
    """Where workers come from. `size`: how many there may be at once."""

    size: int

    def hire(self) -> Hand:
        """Start a worker."""
        ...

    def wait(self, hands: Collection[Hand], seconds: float | None) -> list[Hand]:
        """Those of `hands` that spoke or died; wait for the first of them, but only so long."""
        ...

    def close(self) -> None:
        """See all workers gone."""
        ...


_Task: TypeAlias = tuple[int, P]


class Supervisor(Generic[P]):
    """Gives `partitions` to the workers of `crew`.

    Without a `guard`, the first worker that dies ends it all.
    """

    def __init__(self, crew: Crew, partitions: Iterable[P], guard: Guard | None) -> None:
        self._crew = crew
        self._tasks: Iterator[_Task[P]] = enumerate(partitions, start=1)
        self._guard = guard
        self._waiting: deque[_Task[P]] = deque()
        self._hands: set[Hand] = set()
        self._starting: dict[Hand, float] = {}
        self._busy: dict[Hand, tuple[_Task[P], float]] = {}
        self._starts_in_vain = self._lost_in_vain = 0

    def run(self) -> Generator[tuple[P, Outcome[Any] | Lost], None, None]:
        """Yield each partition with what came of it, as they are done.

        Raises:
            MemeloomError: workers do not get ready, or (without a guard) one died.
            Exception: what opening a worker raised.
        """
        try:
            while self._staff():
                for hand in self._crew.wait([*self._starting, *self._busy], self._patience()):
                    if hand in self._starting:
                        self._welcome(hand)
                    else:
                        yield self._take(hand)
                yield from self._stop_late_ones()
        finally:
            for hand in list(self._hands):
                self._end(hand)
            self._crew.close()

    def _staff(self) -> bool:
        """As many partitions at hand as workers, and a worker for each. False if nothing is left to do."""
        while len(self._waiting) + len(self._busy) < self._crew.size and (task := next(self._tasks, None)):
            self._waiting.append(task)
        while len(self._starting) < len(self._waiting):
            hand = self._crew.hire()
            self._hands.add(hand)
            self._starting[hand] = time.monotonic()
        return bool(self._waiting or self._busy)

    def _welcome(self, hand: Hand) -> None:
        del self._starting[hand]
        try:
            hand.hear().result()
        except Died as death:
            self._give_up_start(hand, f"{death} before it was ready")
        else:
            self._starts_in_vain = 0
            self._employ(hand)

    def _employ(self, hand: Hand) -> None:
        task = self._waiting.popleft() if self._waiting else next(self._tasks, None)
        if task is None:
            self._leave(hand)
            return
        hand.give(task[1])
        self._busy[hand] = task, time.monotonic()

    def _take(self, hand: Hand) -> tuple[P, Outcome[Any] | Lost]:
        task, _ = self._busy.pop(hand)
        try:
            outcome = hand.hear()
        except Died as death:
            return self._lose(hand, task, "worker died", f"a worker {death}")
        self._lost_in_vain = -1
        if outcome.leaving:
            self._leave(hand)
        elif outcome.error is None:
            self._employ(hand)
        return task[1], outcome

    def _stop_late_ones(self) -> Iterator[tuple[P, Lost]]:
        now = time.monotonic()
        for hand in [hand for hand, since in self._starting.items() if now - since >= _STARTING_SECONDS]:
            del self._starting[hand]
            self._give_up_start(hand, f"was not ready within {_STARTING_SECONDS:g} s")
        if self._guard is None:
            return
        late = [hand for hand, (_, since) in self._busy.items() if now - since >= self._guard.seconds]
        # Whoever takes our results may have been away for long: a worker that spoke meanwhile is not late.
        for hand in set(late).difference(self._crew.wait(late, 0) if late else ()):
            task, _ = self._busy.pop(hand)
            yield task[1], self._lose(hand, task, "timeout", f"a worker took more than {self._guard.seconds:g} s")[1]

    def _lose(self, hand: Hand, task: _Task[P], reason: Literal["timeout", "worker died"], how: str) -> tuple[P, Lost]:
        self._end(hand)
        number, partition = task
        line = f"{how} at partition {number} ({reprlib.repr(partition)})"
        if self._guard is None:
            raise MemeloomError(f"{line}; if memory ran out, set engine.workers lower")
        if self._lost_in_vain >= 0:
            self._lost_in_vain += 1
            if self._lost_in_vain >= _LOST_IN_VAIN:
                raise MemeloomError(f"nothing was done: {_LOST_IN_VAIN} workers were lost one after another; {line}")
        return partition, Lost(reason, line)

    def _give_up_start(self, hand: Hand, how: str) -> None:
        self._end(hand)
        self._starts_in_vain += 1
        if self._starts_in_vain >= _STARTS_IN_VAIN:
            raise MemeloomError(f"a worker {how}; if memory ran out, set engine.workers lower")

    def _leave(self, hand: Hand) -> None:
        self._hands.discard(hand)
        hand.leave()

    def _end(self, hand: Hand) -> None:
        self._hands.discard(hand)
        hand.end()

    def _patience(self) -> float | None:
        """Seconds until someone is late."""
        ends = [since + _STARTING_SECONDS for since in self._starting.values()]
        if self._guard is not None:
            ends += [since + self._guard.seconds for _, since in self._busy.values()]
        return max(min(ends) - time.monotonic(), 0.0) if ends else None
