"""What can go wrong between memeloom and its stores."""

from memeloom.configs.errors import MemeloomError


class StoreError(MemeloomError):
    """A store refused, failed or lied. Nothing that it acknowledged is lost."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, or did not answer before the deadline."""


class StoreDenied(StoreError):
    """The store does not accept the credentials, or the rights that come with them."""


class StoreFull(StoreError):
    """No space left where the store keeps its data."""


class StoreCorrupt(StoreError):
    """The store holds something that is not what was put there."""


class BlobMissing(StoreError):
    """No blob has that key."""


class LeaseLost(StoreError):
    """The lease ran out and the work may be someone else's by now."""


class BadImage(MemeloomError):
    """Bytes that are not a picture we accept; `reason` is a short fixed phrase that is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
