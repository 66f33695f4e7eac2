"""Blobs in S3 or any object store that speaks its protocol: `PREFIX/<sha256>`."""

from collections.abc import Iterator
from datetime import UTC, datetime

from memeloom.catalog.blobs import BLOB_KEY, BlobStore, blob_key, check_key, verified
from memeloom.catalog.errors import BlobMissing
from memeloom.catalog.s3_objects import S3Objects
from memeloom.configs.schema import S3


class S3Blobs(BlobStore):
    """A `BlobStore` in an existing bucket; arguments and errors are those of `S3Objects`. Can be pickled."""

    def __init__(self, url: str, s3: S3, timeout_seconds: float) -> None:
        self._objects = S3Objects(url, s3, timeout_seconds, "store.blobs")

    def put(self, data: bytes, key: str | None = None) -> str:
        from obstore.exceptions import AlreadyExistsError

        key = key or blob_key(data)
        with self._objects.call("write", key) as store:
            try:
                store.put(key, data, mode="create")
            except AlreadyExistsError:
                # An object of another size is not the blob: something else wrote it.
                if store.head(key)["size"] != len(data):
                    store.put(key, data, mode="overwrite", use_multipart=False)
        return key

    def get(self, key: str) -> bytes:
        check_key(key, self._objects.url)
        with self._objects.call("read", key) as store:
            data = bytes(store.get(key).bytes())
        return verified(data, key, f"{self._objects.url}/{key}")

    def has(self, key: str) -> bool:
        return self.age(key) is not None

    def delete(self, key: str) -> bool:
        if not self.has(key):
            return False
        with self._objects.call("delete", key) as store:
            store.delete(key)
        return True

    def age(self, key: str) -> float | None:
        check_key(key, self._objects.url)
        try:
            with self._objects.call("read", key) as store:
                written = store.head(key)["last_modified"]
        except BlobMissing:
            return None
        return (datetime.now(UTC) - written).total_seconds()

    def keys(self) -> Iterator[str]:
        with self._objects.call("list") as store:
            for page in store.list(chunk_size=1000):
                for entry in page:
                    name = entry["path"].rpartition("/")[2]
                    if BLOB_KEY.fullmatch(name):
                        yield name

    def close(self) -> None:
        """Do nothing: connections close when the store is deleted."""
