"""The blob store: bytes under the sha256 of themselves, in a folder (default) or in S3.

What every implementation promises (`tests/catalog/test_blobs.py` runs against both):
a blob is there whole or not at all, is written once, and is verified whenever it is read.
"""

import hashlib
from collections.abc import Iterator
from typing import Protocol

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Store


class BlobStore(Protocol):
    """Content-addressed bytes. Safe to share between threads and processes."""

    def put(self, data: bytes, key: str | None = None) -> str:
        """Store `data` durably and return its key. Putting the same bytes twice stores them once.

        key: `blob_key(data)`, if the caller has computed it already.
        """
        ...

    def get(self, key: str) -> bytes:
        """The bytes under `key`, verified. Raises BlobMissing, StoreCorrupt."""
        ...

    def has(self, key: str) -> bool:
        """Whether a whole blob has that key."""
        ...

    def delete(self, key: str) -> bool:
        """Remove a blob; False if there was none."""
        ...

    def age(self, key: str) -> float | None:
        """Seconds since a blob was written, by this machine's clock; None if there is none."""
        ...

    def keys(self) -> Iterator[str]:
        """All keys in order, in bounded memory."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


def blob_key(data: bytes) -> str:
    """The key of `data`: its sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def open_blobs(store: Store) -> BlobStore:
    """Open the store that `store.blobs` names.

    Raises:
        ConfigError: unknown scheme or malformed URL.
        StoreError: it cannot be opened.
    """
    scheme, separator, rest = store.blobs.partition("://")
    if not separator or scheme == "file":
        from memeloom.catalog.folder import FolderBlobs

        return FolderBlobs(rest or scheme)
    if scheme == "s3" and rest.strip("/"):
        from memeloom.catalog.s3 import S3Blobs

        return S3Blobs(store.blobs, store.s3, store.timeout_seconds)
    raise ConfigError(f"store.blobs: cannot use {store.blobs!r}; write a folder or s3://BUCKET/PREFIX")
