"""The document store: one contract, kept by SQLite (embedded default) and by MongoDB.

What every implementation promises (`tests/catalog/test_documents.py` runs against both):

- `upsert` is durable when it returns: kill -9 afterwards loses nothing. Batches are applied
  whole or not at all on SQLite; on MongoDB each record is. Doing it twice changes nothing.
- Two writers of the same meme keep both their facts (`Meme.merged` under a lock or a revision).
- `scan` yields in order of id (code points), in bounded memory, what was there when its batch was read.
- A lease belongs to one holder until it ends; whoever comes late gets `LeaseLost`.
- What a purge removed stays away: no `upsert` and no `put_sketches` brings it back.
- A purge that is killed is finished by another: the blobs to look at are noted before the memes go.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from memeloom.catalog.records import Meme, Template
from memeloom.configs.errors import ConfigError
from memeloom.configs.load import mask_url
from memeloom.configs.schema import Store

T = TypeVar("T")

# Bits that a store keeps beside a record, to answer conditions without reading it.
HAS_IMAGE, HAS_CAPTION, IS_READ, IS_CLEAN = 1, 2, 4, 8
# A sketch is some kilobytes; batches of them are held in memory.
MOST_SKETCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Where:
    """Which memes: every condition that is set must hold. `ALL` has none.

    caption: True for memes whose page states boxes (OCR is not asked).
    read: True for memes that OCR has read, kept or dropped.
    clean: True for memes whose picture was made without its words, too.
    page_url: has no index; every record is looked at.
    """

    ids: tuple[str, ...] | None = None
    source: str | None = None
    template: str | None = None
    author: str | None = None
    image_key: str | None = None
    page_url: str | None = None
    image: bool | None = None
    caption: bool | None = None
    read: bool | None = None
    clean: bool | None = None
    template_known: bool | None = None

    @property
    def flags(self) -> dict[int, bool]:
        """The bits that must be set (True) or clear (False)."""
        asked = {HAS_IMAGE: self.image, HAS_CAPTION: self.caption, IS_READ: self.read, IS_CLEAN: self.clean}
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
class StoredSketch:
    """What a picture is recognised by, as bytes of whoever recognises. The key is (template, meme).

    template: id of the template that the picture shows; "" for a stranger, whose template nobody knows yet.
    meme: id of the meme whose picture it is; "" for the template's own.
    data: at most 1 MiB.

    Raises:
        ValueError: neither a template nor a meme is named, or the data is larger.
    """

    template: str
    meme: str
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what some store could not hold."""
        if not (self.template or self.meme):
            raise ValueError("a sketch is of a template or of a meme")
        if len(self.data) > MOST_SKETCH_BYTES:
            raise ValueError(f"a sketch of {len(self.data):,} bytes; at most {MOST_SKETCH_BYTES:,} are kept")

    @property
    def key(self) -> tuple[str, str]:
        """(template, meme)."""
        return self.template, self.meme


@dataclass(frozen=True, slots=True)
class Counts:
    """What the store holds.

    templates: memes by the id of the template that they name, most first.
    template_records: templates by state: ``known``, ``found``, ``rejected``, or ``merged`` into another one.
    strangers: sketches of memes whose template nobody knows yet.
    """

    memes: int
    images: int
    captions: int
    read: int
    sources: Mapping[str, int]
    templates: Mapping[str, int]
    template_records: Mapping[str, int]
    strangers: int
    stages: Mapping[str, StageCounts]


class DocumentStore(Protocol):
    """Memes, templates and the work on them. Safe to share between threads and processes."""

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Insert or merge (`Meme.merged`) by id; durable when it returns. A later record of one batch wins.

        Ids that a purge removed stay away: they are counted as `removed`, and their blobs noted (`loose`).
        """
        ...

    def get(self, meme_id: str) -> Meme | None:
        """The meme with that id."""
        ...

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        """Yield memes in order of id, those with an id greater than `after`; `batch` records in memory."""
        ...

    def records(self, *, batch: int = 1000) -> Iterator[tuple[str, bytes]]:
        """Yield id and record of every meme, as `scan` does but as JSON that nobody has checked again: much faster.

        It is what `Meme.model_dump_json` says, without what is None; the order of its keys is the store's own.
        """
        ...

    def count(self, where: Where = ALL) -> int:
        """How many memes match."""
        ...

    def counts(self) -> Counts:
        """What the store holds, for `memeloom stats`."""
        ...

    def image_keys(self) -> Iterator[str]:
        """The blob keys that memes or templates refer to, each once, in order.

        They are those of pictures, of pictures made without words and of masks. What a picture was made from
        is only its lineage, and keeps no blob.
        """
        ...

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Insert or merge (`Template.merged`) by id; durable when it returns. Returns how many are new or changed."""
        ...

    def revise_template(self, template_id: str, change: Callable[[Template], Template]) -> Template | None:
        """Put what `change` makes of a template in its place, whatever facts that erases: a person's word.

        Facts that others write meanwhile are kept, for `change` is given the record as it is then; it may be
        called several times, and must not use the store.

        Returns the record as it is now; None if there is no such template.

        Raises:
            ValueError: the id was changed.
        """
        ...

    def templates(self) -> Iterator[Template]:
        """All templates in order of id, those that are rejected or merged included."""
        ...

    def put_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        """Insert or replace by key, a batch in memory; all of them are durable when it returns.

        Those of memes that a purge removed are passed over. A later one of the same key wins.
        """
        ...

    def sketches(self, template: str | None = None, *, strangers: bool = False) -> Iterator[StoredSketch]:
        """Yield sketches in order of key, a batch in memory.

        template: id of the template whose they are; None for those of all templates.
        strangers: those that are no template's, instead.
        """
        ...

    def drop_sketches(self, keys: Iterable[tuple[str, str]]) -> int:
        """Delete the sketches with these keys (template, meme). Returns how many there were."""
        ...

    def enqueue(self, stage: str, where: Where, *, again: bool = False) -> int:
        """Make every matching meme that the stage has not seen yet its pending work.

        again: what the stage is done with becomes pending once more, its attempts counted anew. What somebody
            holds stays theirs, and what failed waits for `retry`.

        Returns how many are pending by this call.
        """
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

    def purge(self, where: Where) -> int:
        """Delete matching memes, their work and sketches, and remember their ids so that no crawl brings them back.

        The blobs that they referred to are noted (`loose`). Killed at any moment, what is gone is gone for good and
        noted, and the same call does the rest. Returns the number deleted.
        """
        ...

    def scrub(self) -> bool:
        """Leave no trace of what was deleted in the store's own files. Returns False if somebody kept it from that.

        What was deleted can stand there still, where records were moved to another place before.
        """
        ...

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed: what belongs to them need not be fetched."""
        ...

    def loosen(self, keys: Iterable[str]) -> None:
        """Note blobs that may have lost, or are about to lose, what last referred to them."""
        ...

    def loose(self) -> Iterator[list[str]]:
        """Yield the noted blob keys that are not settled, in order, a batch in memory."""
        ...

    def gone(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that were ever noted and that no meme and no template refers to now.

        Their blobs may be deleted, or are.
        """
        ...

    def settle(self, keys: Sequence[str]) -> None:
        """Take keys off `loose`: the blobs of those that are `gone` are deleted; the others are needed."""
        ...

    def references(self, keys: Iterable[str]) -> dict[str, int]:
        """How many memes and templates refer to each blob, as picture, picture without words or mask."""
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
        from memeloom.catalog.sqlite import SqliteDocuments

        return SqliteDocuments(rest[1:], store.timeout_seconds)
    if scheme in ("mongodb", "mongodb+srv"):
        from memeloom.catalog.mongo import MongoDocuments

        return MongoDocuments(store.documents, store.timeout_seconds)
    raise ConfigError(
        f"store.documents: cannot use {mask_url(store.documents)!r}; write sqlite:///FILE or mongodb://HOST/DATABASE"
    )


def flags(meme: Meme) -> int:
    """The bits of `meme`, as `Where.flags` asks for them."""
    read, clean = IS_READ * (meme.ocr is not None), IS_CLEAN * (meme.clean is not None)
    return HAS_IMAGE * (meme.image is not None) | HAS_CAPTION * bool(meme.boxes) | read | clean


def revise(known: Template, change: Callable[[Template], Template]) -> Template:
    """What `change` makes of `known`. Raises ValueError: the id was changed."""
    revised = change(known)
    if revised.id != known.id:
        raise ValueError(f"the id of template {known.id} cannot be changed")
    return revised


def batched(items: Iterable[T], n: int) -> Iterator[list[T]]:
    """Yield lists of `n` items; the last one may be shorter."""
    source = iter(items)
    while chunk := list(itertools.islice(source, n)):
        yield chunk
