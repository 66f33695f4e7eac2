"""The contract of a blob store: bytes addressed by their own sha256, in a folder (default) or in S3.

`tests/catalog/test_blobs.py` holds both to it: a blob is complete or absent, written once, and verified on every read.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Protocol

from memeloom.catalog.errors import BlobMissing, StoreCorrupt

BLOB_KEY = re.compile(r"[0-9a-f]{64}")


class Storing(Protocol):
    """Facet of a `BlobStore`: what an import needs, so that a dry run can do without a store."""

    def put(self, data: bytes, key: str | None = None) -> str:
        """Store `data` durably and return its key. Idempotent. key: `blob_key(data)`, if already computed."""

    def has(self, key: str) -> bool:
        """Return True if there is a blob with that key."""

    def close(self) -> None:
        """Close connections."""


class BlobStore(Storing, Protocol):
    """Content-addressed bytes. Safe to share between threads and processes."""

    def get(self, key: str) -> bytes:
        """Return the bytes under `key`, verified. Raises BlobMissing, StoreCorrupt."""

    def delete(self, key: str) -> bool:
        """Remove a blob. Returns False if there was none."""

    def age(self, key: str) -> float | None:
        """Return the seconds since a blob was written, by this machine's clock; None if there is none."""

    def keys(self) -> Iterator[str]:
        """Yield all keys in order, in bounded memory."""


def blob_key(data: bytes) -> str:
    """Return the key of `data`: its sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def check_key(key: str, place: object) -> None:
    """Refuse what is not a key: it would become part of a path. Raises BlobMissing."""
    if not BLOB_KEY.fullmatch(key):
        raise BlobMissing(f"{place}: {key[:80]!r} is not a blob key (64 hexadecimal digits)")


def verified(data: bytes, key: str, name: object) -> bytes:
    """Return `data` if it is the blob `key`. Raises StoreCorrupt."""
    if blob_key(data) != key:
        raise StoreCorrupt(f"{name}: the bytes are not those that were stored; delete it and fetch it again")
    return data
