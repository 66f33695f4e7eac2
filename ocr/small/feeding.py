"""Items to learn from, made by another process while this one trains."""

import multiprocessing
from collections.abc import Callable, Iterator
from queue import Empty, Full
from typing import Any, Generic, TypeVar

import cv2

_SECONDS = 5.0  # after which each process looks whether the other is there

Item = TypeVar("Item")


class Feed(Generic[Item]):
    """A process that makes items; a context manager.

    make: called there with `arguments`, yields items for ever. waiting: how many are made ahead.
    """

    def __init__(self, make: Callable[..., Iterator[Item]], arguments: tuple[Any, ...], waiting: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: multiprocessing.Queue[Item] = context.Queue(waiting)
        self._process = context.Process(target=_fill, args=(self._queue, make, arguments), daemon=True)

    def __enter__(self) -> "Feed[Item]":
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def items(self) -> Iterator[Item]:
        """Yield items for ever. Raises RuntimeError if the process ended."""
        while True:
            try:
                yield self._queue.get(timeout=_SECONDS)
            except Empty:
                if not self._process.is_alive():
                    raise RuntimeError("the process that draws ended; its error is above") from None


def _fill(
    queue: "multiprocessing.Queue[Item]", make: Callable[..., Iterator[Item]], arguments: tuple[Any, ...]
) -> None:
    cv2.setNumThreads(1)
    for item in make(*arguments):
        _put(queue, item)


def _put(queue: "multiprocessing.Queue[Item]", item: Item) -> None:
    """Wait for room in the queue; leave if the trainer is gone."""
    while True:
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            raise SystemExit
        try:
            return queue.put(item, timeout=_SECONDS)
        except Full:
            continue
