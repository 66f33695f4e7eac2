"""Helpers for asyncio: blocking calls in threads, and group commit."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Record = TypeVar("Record")


async def in_thread(threads: Executor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in one of `threads` and return its result."""
    return await asyncio.get_running_loop().run_in_executor(threads, lambda: function(*args, **kwargs))


class Batch(Generic[Record]):
    """Group commit: records are written together, and each is acknowledged when it is durable.

    Records are queued while a write is in progress; the next write takes up to `size` of them, so batches grow as the
    store slows down and no record waits for a full batch. `write` returns when its records are durable; if it raises,
    every caller waiting for one of them gets that error.
    """

    def __init__(self, write: Callable[[list[Record]], Awaitable[None]], size: int) -> None:
        self._write = write
        self._size = size
        self._pending: list[tuple[Record, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        """Return when `record` is durable. Raises the error of the write."""
        done = asyncio.get_running_loop().create_future()
        self._pending.append((record, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def flush(self) -> None:
        """Return when nothing is pending."""
        if self._writer is not None:
            await self._writer

    async def _write_all(self) -> None:
        try:
            while self._pending:
                taken, self._pending = self._pending[: self._size], self._pending[self._size :]
                await self._write_some(taken)
        finally:
            self._writer = None

    async def _write_some(self, taken: list[tuple[Record, asyncio.Future[None]]]) -> None:
        try:
            await self._write([record for record, _ in taken])
        except Exception as error:  # noqa: BLE001 -- re-raised in every waiting caller
            for _, done in taken:
                if not done.done():  # the caller may have been cancelled
                    done.set_exception(error)
        else:
            for _, done in taken:
                if not done.done():
                    done.set_result(None)
