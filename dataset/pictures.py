"""The pictures that go into records: which one, and its bytes from the blob store as they lie there."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from catalog.blobs import BlobStore
from catalog.errors import BlobMissing, StoreCorrupt
from catalog.records import Image, Meme, Template
from dataset.spill import Row

# A network store answers in milliseconds; a handful of requests at once keeps the builder busy.
_READERS = 8
_AT_ONCE = 32
_CACHED = 64


Kind: TypeAlias = Literal["template", "meme", "inpainted"]
# Why a meme has none of the wanted kind.
NO_PICTURE: Final = MappingProxyType(
    {"template": "no picture", "meme": "no picture", "inpainted": "no picture without words"}
)


def chosen_picture(kind: Kind, meme: Meme, template: Template | None) -> Image | None:
    """The picture of `meme` that a dataset of `kind` takes; None if there is none.

    kind: ``template`` for the blank picture (the site's, else the one made from memes), ``meme`` for the original,
        ``inpainted`` for the meme's own without its words, as long as that was made from the picture it has now.
    """
    if kind == "template":
        return template.picture if template else None
    if kind == "meme" or meme.image is None:
        return meme.image
    return meme.clean.image if meme.clean and meme.image.key in meme.clean.made_from else None


class _Fetch(Protocol):
    def __call__(self, key: str) -> bytes | str: ...


def with_pictures(rows: Iterable[Row], blobs: BlobStore, dropped: Counter[str]) -> Iterator[tuple[Row, bytes]]:
    """The rows with the bytes of their pictures; at most 96 pictures in memory.

    dropped: takes the counts of ``picture missing`` and ``picture damaged`` in the blob store.

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
    rows: Iterator[Row], fetch: _Fetch, readers: ThreadPoolExecutor, dropped: Counter[str]
) -> Iterator[tuple[Row, bytes]]:
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        for row, found in zip(batch, readers.map(fetch, (row.image_key for row in batch)), strict=True):
            if isinstance(found, str):
                dropped[found] += 1
            else:
                yield row, found
