"""The leases of a run, renewed by a thread for as long as the run takes."""

import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Self

from memeloom.catalog.documents import DocumentStore, Lease
from memeloom.catalog.errors import LeaseLost, StoreError


class HeldLeases:
    """Leases of `stage` for `seconds`, renewed until settled; the others are released when the block ends.

    `lost` counts leases that expired anyway, such as on a suspended machine.
    """

    def __init__(self, documents: DocumentStore, stage: str, seconds: float) -> None:
        self._documents = documents
        self._stage = stage
        self._seconds = seconds
        self._held: dict[str, Lease] = {}
        # Held during calls to the store, so that no lease is renewed while it is settled.
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._extend_in_time, name="leases", daemon=True)
        self.lost = 0

    def __enter__(self) -> Self:
        """Start to renew."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Release what is left. If the store is gone too, the leases expire."""
        self._over.set()
        self._thread.join()
        with suppress(StoreError):
            self._documents.release(list(self._held.values()))

    def __contains__(self, meme_id: str) -> bool:
        """Return True if we hold the lease of the meme."""
        return meme_id in self._held

    def take(self, n: int, attempts: int) -> list[str]:
        """Lease up to `n` memes and return their ids."""
        leases = self._documents.lease(self._stage, n, self._seconds, attempts)
        with self._lock:
            self._held.update((lease.meme_id, lease) for lease in leases)
        return [lease.meme_id for lease in leases]

    def acknowledge(self, meme_ids: Collection[str]) -> None:
        """Mark their work as done."""
        with self._lock:
            self._documents.ack([self._held.pop(meme_id) for meme_id in meme_ids if meme_id in self._held])

    def fail(self, meme_id: str, reason: str, attempts: int) -> bool:
        """Count a failed attempt. Returns True if it was the last. Raises LeaseLost."""
        with self._lock:
            lease = self._held.pop(meme_id, None)
            if lease is None:
                raise LeaseLost(f"{self._stage}: the lease of {meme_id} expired")
            try:
                self._documents.fail(lease, reason, attempts)
            except LeaseLost:
                self.lost += 1
                raise
        return lease.attempt >= attempts

    def _extend_in_time(self) -> None:
        while not self._over.wait(self._seconds / 3):
            # If the store stays unreachable, the next write fails.
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
