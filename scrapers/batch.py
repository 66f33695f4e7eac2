"""Group commit: records written together, each acknowledged only when it is durable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Record = TypeVar("Record")


class Batch(Generic[Record]):
    """While one write is under way, records gather; the next write takes up to `size` of them.

    So batches grow as the store slows down, and nobody waits for a batch to fill up. `write` returns
    when its records are durable; if it raises, everyone who waits for one of its records gets that error.
    """

    def __init__(self, write: Callable[[list[Record]], Awaitable[None]], size: int) -> None:
        self._write = write
        self._size = size
        self._pending: list[tuple[Record, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        """Return when `record` is durable. Raises what the write raised."""
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
        except Exception as error:  # noqa: BLE001 -- handed on to everyone who waits
            for _, done in taken:
                if not done.done():  # whoever waited may have been cancelled
                    done.set_exception(error)
        else:
            for _, done in taken:
                if not done.done():
                    done.set_result(None)
