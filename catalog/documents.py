"""The document store: one contract, kept by SQLite (embedded default) and by MongoDB.

What every implementation promises (`tests/catalog/test_documents.py` runs against both):

- `upsert` is durable when it returns: kill -9 afterwards loses nothing. Batches are applied
  whole or not at all on SQLite; on MongoDB each record is. Doing it twice changes nothing.
- Two writers of the same meme keep both their facts (`Meme.merged` under a lock or a revision).
- `scan` yields in order of id (code points), in bounded memory, what was there when its batch was read.
- A lease belongs to one holder until it ends; whoever comes late gets `LeaseLost`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from catalog.records import Meme, Template
from configs.errors import ConfigError
from configs.load import mask_url
from configs.schema import Store

T = TypeVar("T")

# Bits that a store keeps beside a record, to answer conditions without reading it.
HAS_IMAGE, HAS_CAPTION, IS_READ = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Where:
    """Which memes: every condition that is set must hold. `ALL` has none.

    caption: True for memes whose page states boxes (OCR is not asked).
    read: True for memes that OCR has read, kept or dropped.
    """

    ids: tuple[str, ...] | None = None
    source: str | None = None
    template: str | None = None
    author: str | None = None
    image_key: str | None = None
    image: bool | None = None
    caption: bool | None = None
    read: bool | None = None
    template_known: bool | None = None

    @property
    def flags(self) -> dict[int, bool]:
        """The bits that must be set (True) or clear (False)."""
        asked = {HAS_IMAGE: self.image, HAS_CAPTION: self.caption, IS_READ: self.read}
        return {bit: wanted for bit, wanted in asked.items() if wanted is not None}


ALL = Where()


@dataclass(frozen=True, slots=True)
class Upserted:
    """How many records of a batch were new, changed something, changed nothing, or are banned by a purge.

    Records of one id in one batch are counted once, the others among them as unchanged.
    """

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0

    def __add__(self, other: Self) -> "Upserted":
        """The tallies of both batches together."""
        return Upserted(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.removed + other.removed,
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one meme in one stage until it expires. `attempt` counts from 1."""

    stage: str
    meme_id: str
    token: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Work of one stage by state; `reasons` counts the failed by their reason."""

    pending: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the store holds. `templates` maps template id to memes, most first."""

    memes: int
    images: int
    captions: int
    read: int
    sources: Mapping[str, int]
    templates: Mapping[str, int]
    stages: Mapping[str, StageCounts]


class DocumentStore(Protocol):
    """Memes, templates and the work on them. Safe to share between threads and processes."""

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Insert or merge (`Meme.merged`) by id; durable when it returns. A later record of one batch wins.

        Ids that a purge removed stay away: they are counted as `removed`.
        """
        ...

    def get(self, meme_id: str) -> Meme | None:
        """The meme with that id."""
        ...

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        """Yield memes in order of id, those with an id greater than `after`; `batch` records in memory."""
        ...

    def count(self, where: Where = ALL) -> int:
        """How many memes match."""
        ...

    def counts(self) -> Counts:
        """What the store holds, for `memeloom stats`."""
        ...

    def image_keys(self) -> Iterator[str]:
        """The blob keys that memes or templates refer to, each once, in order."""
        ...

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Insert or replace by id, keeping a known image that the new record lacks. Returns how many changed."""
        ...

    def templates(self) -> Iterator[Template]:
        """All templates in order of id."""
        ...

    def enqueue(self, stage: str, where: Where) -> int:
        """Make every matching meme that the stage has not seen yet its pending work. Returns how many are new."""
        ...

    def lease(self, stage: str, n: int, ttl: float, attempts: int) -> list[Lease]:
        """Claim up to `n` pieces of work for `ttl` seconds, pending or abandoned by a holder whose lease ran out.

        Work whose lease ran out `attempts` times becomes failed with reason ``abandoned``.
        """
        ...

    def extend(self, lease: Lease, ttl: float) -> None:
        """Hold on for another `ttl` seconds. Raises LeaseLost."""
        ...

    def ack(self, leases: Sequence[Lease]) -> int:
        """The work is done and its facts are upserted. Returns how many were still held; the others are not done."""
        ...

    def fail(self, lease: Lease, reason: str, attempts: int) -> None:
        """The work failed: back to pending, or, after the last of `attempts`, failed with `reason`.

        Raises LeaseLost.
        """
        ...

    def release(self, leases: Sequence[Lease]) -> int:
        """The work was not tried: pending again, the attempt not counted. Returns how many were still held."""
        ...

    def failed(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yield id and reason of what failed in `stage` for good, in order of id, in bounded memory."""
        ...

    def retry(self, stage: str, reason: str | None = None) -> int:
        """Make failed work pending again (all of it, or of one reason). Returns how many."""
        ...

    def purge(self, where: Where) -> tuple[int, list[str]]:
        """Delete matching memes and their work, and remember their ids so that no crawl brings them back.

        Returns the number deleted and the image keys that nothing refers to any more.
        """
        ...

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed: what belongs to them need not be fetched."""
        ...

    def close(self) -> None:
        """Give back connections and files."""
        ...


def open_documents(store: Store) -> DocumentStore:
    """Open the store that `store.documents` names, creating it if it is new.

    Raises:
        ConfigError: unknown scheme or malformed URL.
        StoreError: it cannot be opened.
    """
    scheme, _, rest = store.documents.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from catalog.sqlite import SqliteDocuments

        return SqliteDocuments(rest[1:], store.timeout_seconds)
    if scheme in ("mongodb", "mongodb+srv"):
        from catalog.mongo import MongoDocuments

        return MongoDocuments(store.documents, store.timeout_seconds)
    raise ConfigError(
        f"store.documents: cannot use {mask_url(store.documents)!r}; write sqlite:///FILE or mongodb://HOST/DATABASE"
    )


def flags(meme: Meme) -> int:
    """The bits of `meme`, as `Where.flags` asks for them."""
    return HAS_IMAGE * (meme.image is not None) | HAS_CAPTION * bool(meme.boxes) | IS_READ * (meme.ocr is not None)


def batched(items: Iterable[T], n: int) -> Iterator[list[T]]:
    """Yield lists of `n` items; the last one may be shorter."""
    source = iter(items)
    while chunk := list(itertools.islice(source, n)):
        yield chunk
