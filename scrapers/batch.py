"""Records written together, each acknowledged only when it is durable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Record = TypeVar("Record")


class Batch(Generic[Record]):
    """Collects records for at most `wait_seconds` and hands up to `size` of them to `write` at once.

    One write is under way at a time. `write` returns when its records are durable; if it raises,
    everyone who waits for one of its records gets that error.
    """

    def __init__(self, write: Callable[[list[Record]], Awaitable[None]], size: int, wait_seconds: float) -> None:
        self._write = write
        self._size = size
        self._wait_seconds = wait_seconds
        self._pending: list[tuple[Record, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._hurry = False

    async def put(self, record: Record) -> None:
        """Return when `record` is durable. Raises what the write raised."""
        done = asyncio.get_running_loop().create_future()
        self._pending.append((record, done))
        if len(self._pending) >= self._size:
            self._full.set()
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def flush(self) -> None:
        """Write what is pending now, and wait for it."""
        self._hurry = True
        self._full.set()
        try:
            if self._writer is not None:
                await self._writer
        finally:
            self._hurry = False

    async def _write_all(self) -> None:
        try:
            while self._pending:
                await self._wait_until_full()
                taken, self._pending = self._pending[: self._size], self._pending[self._size :]
                await self._write_some(taken)
        finally:
            self._writer = None

    async def _wait_until_full(self) -> None:
        if len(self._pending) < self._size and not self._hurry:
            self._full.clear()
            try:
                await asyncio.wait_for(self._full.wait(), self._wait_seconds)
            except TimeoutError:
                return

    async def _write_some(self, taken: list[tuple[Record, asyncio.Future[None]]]) -> None:
        try:
            await self._write([record for record, _ in taken])
        except Exception as error:  # noqa: BLE001 -- handed on to everyone who waits
            for _, done in taken:
                done.set_exception(error)
        else:
            for _, done in taken:
                done.set_result(None)
