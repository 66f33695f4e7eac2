"""Errors of the stores; `_ERRORS` of each backend maps its exceptions to them.

::

    MemeloomError
      StoreError            a store refused or failed; nothing acknowledged is lost
        StoreUnavailable    unreachable or timed out; retrying may help
        StoreDenied         wrong credentials or a missing right
        StoreFull           no space left
        StoreCorrupt        it returned something else than what was stored
        StoreMissing        there is no store yet (only where it must not be created)
        StoreOutdated       it is of an older version (only where it must not be upgraded)
        BlobMissing         no blob has that key
        LeaseLost           the lease expired; another worker may hold it
      BadImage              bytes that are not an acceptable picture
"""

from memeloom.configs.errors import MemeloomError


class StoreError(MemeloomError):
    """A store refused or failed. Nothing that it acknowledged is lost."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, or did not answer within the timeout."""


class StoreDenied(StoreError):
    """The store refuses the credentials, or they lack a right."""


class StoreFull(StoreError):
    """The store has no space left."""


class StoreCorrupt(StoreError):
    """The store returned something else than what was stored."""


class StoreMissing(StoreError):
    """There is no catalog yet, and the caller asked not to create one."""


class StoreOutdated(StoreError):
    """The catalog is of an older version, and the caller asked not to upgrade it."""


class BlobMissing(StoreError):
    """No blob has that key."""


class LeaseLost(StoreError):
    """The lease expired; another worker may hold it."""


class BadImage(MemeloomError):
    """Bytes that are not an acceptable picture. `reason` is one of a few fixed phrases, so that it can be counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
