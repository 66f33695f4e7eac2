"""The pictures that go into records: their bytes from the blob store as they lie there."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Protocol

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.errors import BlobMissing, StoreCorrupt
from memeloom.dataset.flow.filter import Row

# A network store answers in milliseconds; a handful of requests at once keeps the builder busy.
_READERS = 8
_AT_ONCE = 32
_CACHED = 64


class _Fetch(Protocol):
    def __call__(self, key: str) -> bytes | str: ...


def with_pictures(
    rows: Iterable[Row], blobs: BlobStore, dropped: Counter[tuple[str, str]]
) -> Iterator[tuple[Row, bytes]]:
    """The rows with the bytes of their pictures; at most 96 pictures in memory.

    dropped: takes the counts of ``picture missing`` and ``picture damaged`` in the blob store, by source.

    Raises:
        StoreError: the blob store cannot be asked.
    """

    @lru_cache(maxsize=_CACHED)
    def fetch(key: str) -> bytes | str:
        try:
            return blobs.get(key)
        except BlobMissing:
            return "picture missing"
        except StoreCorrupt:
            return "picture damaged"

    with ThreadPoolExecutor(_READERS) as readers:
        yield from _fetched(iter(rows), fetch, readers, dropped)


def _fetched(
    rows: Iterator[Row], fetch: _Fetch, readers: ThreadPoolExecutor, dropped: Counter[tuple[str, str]]
) -> Iterator[tuple[Row, bytes]]:
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        for row, found in zip(batch, readers.map(fetch, (row.image_key for row in batch)), strict=True):
            if isinstance(found, str):
                dropped[found, row.source] += 1
            else:
                yield row, found
