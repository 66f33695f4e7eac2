"""The leases of a run, kept alive by a thread: whatever the run waits for, nobody else works on its memes."""

import threading
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType
from typing import Self

from memeloom.catalog.documents import DocumentStore, Lease
from memeloom.catalog.errors import LeaseLost, StoreError


class HeldLeases:
    """Leases of `stage` for `seconds`, extended until they are settled. What is left at the end is given back untried.

    Use it as a context manager. `lost` counts leases that ran out all the same (a machine that slept).
    """

    def __init__(self, documents: DocumentStore, stage: str, seconds: float) -> None:
        self._documents = documents
        self._stage = stage
        self._seconds = seconds
        self._held: dict[str, Lease] = {}
        # Held over calls to the store: a lease is not extended while it is settled.
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._extend_in_time, name="leases", daemon=True)
        self.lost = 0

    def __enter__(self) -> Self:
        """Begin to extend."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what is left. If the store is gone too, that comes back when its leases run out."""
        self._over.set()
        self._thread.join()
        with suppress(StoreError):
            self._documents.release(list(self._held.values()))

    def __contains__(self, meme_id: str) -> bool:
        """Whether the meme is ours to write."""
        return meme_id in self._held

    def take(self, n: int, attempts: int) -> list[str]:
        """Lease up to `n` memes; their ids."""
        leases = self._documents.lease(self._stage, n, self._seconds, attempts)
        with self._lock:
            self._held.update((lease.meme_id, lease) for lease in leases)
        return [lease.meme_id for lease in leases]

    def acknowledge(self, meme_ids: Collection[str]) -> None:
        """Their work is done."""
        with self._lock:
            self._documents.ack([self._held.pop(meme_id) for meme_id in meme_ids if meme_id in self._held])

    def fail(self, meme_id: str, reason: str, attempts: int) -> bool:
        """An attempt failed; whether that was the last. Raises LeaseLost."""
        with self._lock:
            lease = self._held.pop(meme_id, None)
            if lease is None:
                raise LeaseLost(f"{self._stage}: the lease of {meme_id} ran out")
            try:
                self._documents.fail(lease, reason, attempts)
            except LeaseLost:
                self.lost += 1
                raise
        return lease.attempt >= attempts

    def _extend_in_time(self) -> None:
        while not self._over.wait(self._seconds / 3):
            # If the store stays away, whoever writes will see it.
            with suppress(StoreError):
                self._extend_all()

    def _extend_all(self) -> None:
        for meme_id in list(self._held):
            with self._lock:
                lease = self._held.get(meme_id)
                if lease is None or self._over.is_set():
                    continue
                try:
                    self._documents.extend(lease, self._seconds)
                except LeaseLost:
                    del self._held[meme_id]
                    self.lost += 1
