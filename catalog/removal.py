"""Taking memes out for good: which, what goes with them, and what a purge that was killed left to do.

The order makes it safe at any moment: ids are banned and blobs are noted before a meme goes, templates lose the
pictures that were made from it next, and blobs go last. Whoever calls `finish` later goes on from the notes.
"""

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, TypeAlias

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where, batched
from memeloom.catalog.images import hamming
from memeloom.catalog.records import Meme, Template

# Whoever puts a blob writes who refers to it soon after; until then nobody else may take it for an orphan.
YOUNG_SECONDS: Final = 3600.0
_BATCH = 1000
_THREADS = 16
# Bits of 256 in which pictures may differ that a person should look at, and how many of them are shown.
_ALIKE, _SHOWN = 16, 20

# Of blob keys, those that are gone or would go.
Gone: TypeAlias = Callable[[Iterable[str]], set[str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which memes: those for which all conditions hold.

    looks_like, bits: and whose picture differs from this pHash-256 in at most so many bits; None asks for no look.
    """

    where: Where
    looks_like: str | None = None
    bits: int | None = None

    def memes(self, documents: DocumentStore) -> Iterator[Meme]:
        """Yield them in order of id, a batch in memory."""
        if self.looks_like is None or self.bits is None:
            yield from documents.scan(self.where)
            return
        for _, meme in near(documents, self.where, self.looks_like, self.bits):
            yield meme

    def alike(self, documents: DocumentStore) -> list[tuple[int, str]]:
        """How many bits memes are away that are not chosen, but look much the same, and their ids: the nearest few."""
        if self.looks_like is None:
            return []
        where = replace(self.where, image_key=None)
        others = (
            (bits, meme.id)
            for bits, meme in near(documents, where, self.looks_like, _ALIKE)
            if meme.image and (meme.image.key != self.where.image_key if self.bits is None else bits > self.bits)
        )
        return heapq.nsmallest(_SHOWN, others)

    def among(self, documents: DocumentStore, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that are chosen."""
        asked = set(ids) if self.where.ids is None else set(ids).intersection(self.where.ids)
        narrowed = replace(self, where=replace(self.where, ids=tuple(asked)))
        return {meme.id for meme in narrowed.memes(documents)} if asked else set()


def near(documents: DocumentStore, where: Where, phash256: str, bits: int) -> Iterator[tuple[int, Meme]]:
    """Yield in how many of 256 bits pictures differ from `phash256`, at most `bits`, and their memes."""
    for meme in documents.scan(replace(where, image=True)):
        if meme.image and (distance := hamming(meme.image.phash256, phash256)) <= bits:
            yield distance, meme


class Plan:
    """What a purge would take; nothing of the catalog is touched. What is counted lies in `folder`, not in memory.

    memes: how many. blobs: pictures and masks that nobody else refers to. templates: ids of those that would lose the
    picture that was made from them.
    """

    def __init__(self, documents: DocumentStore, choice: Choice, folder: Path) -> None:
        self.memes = 0
        self._documents = documents
        self._choice = choice
        self._file = sqlite3.connect(folder / "plan.db", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        # n: how many of those that go refer to it.
        self._file.execute("CREATE TABLE blobs (key TEXT PRIMARY KEY, n INTEGER NOT NULL, goes INTEGER) WITHOUT ROWID")
        for batch in batched(choice.memes(documents), _BATCH):
            self.memes += len(batch)
            self._refer(key for meme in batch for key in meme.blobs)
        self._decide()
        self.templates = []
        for template in _made_of(documents, self.pictures):
            self.templates.append(template.id)
            self._refer(template.clean.keys if template.clean else ())
        self._decide()
        self.blobs: int = self._file.execute("SELECT count(*) FROM blobs WHERE goes").fetchone()[0]

    def ids(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that would go."""
        return self._choice.among(self._documents, ids)

    def pictures(self, keys: Iterable[str]) -> set[str]:
        """Those of the blobs `keys` that would go with the memes."""
        found: set[str] = set()
        for key in keys:
            found.update(k for (k,) in self._file.execute("SELECT key FROM blobs WHERE key = ? AND goes", (key,)))
        return found

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the file back."""
        self.close()

    def _refer(self, keys: Iterable[str]) -> None:
        self._file.execute("BEGIN")
        statement = "INSERT INTO blobs VALUES (?, 1, 0) ON CONFLICT (key) DO UPDATE SET n = n + 1"
        self._file.executemany(statement, [(key,) for key in keys])
        self._file.execute("COMMIT")

    def _decide(self) -> None:
        last = ""
        query = "SELECT key, n FROM blobs WHERE key > ? ORDER BY key LIMIT ?"
        while rows := self._file.execute(query, (last, _BATCH)).fetchall():
            everybody = self._documents.references(key for key, _ in rows)
            going = [(key,) for key, n in rows if everybody.get(key, 0) <= n]
            self._file.execute("BEGIN")
            self._file.executemany("UPDATE blobs SET goes = 1 WHERE key = ?", going)
            self._file.execute("COMMIT")
            last = rows[-1][0]


@dataclass(frozen=True, slots=True)
class Finished:
    """blobs: how many were deleted. templates: ids of those whose picture was made from what is gone."""

    blobs: int
    templates: list[str]


def remove(documents: DocumentStore, choice: Choice) -> int:
    """Purge the memes; `finish` does the rest. Returns how many there were."""
    if choice.looks_like is None or choice.bits is None:
        return documents.purge(choice.where)
    batches = batched(choice.memes(documents), _BATCH)
    return sum(documents.purge(Where(ids=tuple(meme.id for meme in batch))) for batch in batches)


def finish(documents: DocumentStore, blobs: BlobStore) -> Finished:
    """Delete what this purge and earlier ones left: pictures of templates that were made from it, and blobs.

    A template whose made picture is dropped gets another one from the memes that are left, when templates are
    looked for the next time.

    Raises:
        StoreError: a store refused or failed; the next call goes on.
    """
    templates = []
    for template in _made_of(documents, documents.gone):
        _unmake(documents, template)
        templates.append(template.id)
    deleted = 0
    for keys in documents.loose():
        deleted += _delete(blobs, documents.gone(keys))
        documents.settle(keys)
    return Finished(deleted, templates)


def sweep(
    documents: DocumentStore, blobs: BlobStore, *, dry: bool = False, young_seconds: float = YOUNG_SECONDS
) -> tuple[int, int]:
    """Delete every blob that nothing refers to, whatever left it: a killed crawl, a picture that was replaced.

    dry: only count them.
    young_seconds: blobs written since are left alone, for somebody may be about to refer to them.

    Returns:
        How many were deleted, and how many are too young to tell.
    """
    deleted = young = 0
    with ThreadPoolExecutor(_THREADS) as threads:
        for batch in batched(_unreferred(blobs.keys(), documents.image_keys()), _BATCH):
            ages = zip(batch, threads.map(blobs.age, batch), strict=True)
            old = [key for key, age in ages if age is not None and age >= young_seconds]
            young += len(batch) - len(old)
            dead = set(old) - documents.references(old).keys()
            deleted += len(dead) if dry else _delete(blobs, dead)
    return deleted, young


def _unreferred(there: Iterator[str], needed: Iterator[str]) -> Iterator[str]:
    """What is in the first and not in the second; both in order."""
    wanted = next(needed, None)
    for key in there:
        while wanted is not None and wanted < key:
            wanted = next(needed, None)
        if key != wanted:
            yield key


def _delete(blobs: BlobStore, keys: Iterable[str]) -> int:
    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(sum(threads.map(blobs.delete, batch)) for batch in batched(sorted(keys), _BATCH))


def _made_of(documents: DocumentStore, gone: Gone) -> Iterator[Template]:
    """The templates whose picture was made from memes, some picture of which is gone."""
    for batch in batched((template for template in documents.templates() if template.clean), _BATCH):
        over = gone({key for template in batch for key in _sources(template)})
        yield from (template for template in batch if over.intersection(_sources(template)))


def _sources(template: Template) -> tuple[str, ...]:
    return template.clean.made_from if template.clean else ()


def _unmake(documents: DocumentStore, template: Template) -> None:
    """Drop the picture that was made, and what it is recognised by; noted first, like all that goes."""
    made = template.clean
    if made is None:
        return
    documents.loosen(made.keys)
    documents.revise_template(
        template.id, lambda now: now.model_copy(update={"clean": None}) if now.clean == made else now
    )
    if template.image is None:
        documents.drop_sketches([(template.id, "")])
