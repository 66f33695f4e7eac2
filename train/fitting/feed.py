"""Batches made in a thread while the device learns, and how long the device had to wait for them."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from memeloom.train.contract import Batch

_AHEAD = 3


class Feed:
    """The batches of steps `first`, `first` + 1, … `stop` - 1, in this order. Use it as a context manager.

    waited: seconds that `take` has spent waiting for a batch. A device works on while the host waits, if steps were
    sent to it before; so it stood still for at most that long.
    """

    def __init__(self, batch: Callable[[int], Batch], first: int, stop: int) -> None:
        self._batch, self._next, self._stop = batch, first, stop
        self._maker = ThreadPoolExecutor(1, "batches")
        self._ready: deque[Future[Batch]] = deque()
        self.waited = 0.0

    def take(self) -> Batch:
        """The next batch. Raises what making it raised, and IndexError behind the last."""
        self._order()
        ready = self._ready.popleft()
        began = time.perf_counter()
        batch = ready.result()
        self.waited += time.perf_counter() - began
        self._order()
        return batch

    def _order(self) -> None:
        while len(self._ready) < _AHEAD and self._next < self._stop:
            self._ready.append(self._maker.submit(self._batch, self._next))
            self._next += 1

    def __enter__(self) -> Self:
        """Begin to make batches."""
        self._order()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make no more."""
        self._maker.shutdown(cancel_futures=True)
