"""Remove memes for good: choose, preview, delete, and finish killed purges.

Safe to kill at any moment: ids are banned and blobs noted as possible orphans before a meme is deleted, then templates
lose the pictures made from it, and blobs go last. A later `finish` continues from the notes.
"""

import heapq
import html
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from memeloom.catalog.blobs import BlobStore
from memeloom.catalog.documents import DocumentStore, Where, batched
from memeloom.catalog.records import Meme, Template, hamming

# A blob is stored before the record that refers to it; until then it must not count as an orphan.
YOUNG_SECONDS: Final = 3600.0
_BATCH = 1000
_THREADS = 16
# Similar pictures shown for review: largest Hamming distance (of 256 bits), and their number.
_SIMILAR_BITS, _SIMILAR_SHOWN = 16, 20
# What an id may look like in a page. Embedded pictures are one long word.
_ID = re.compile(rb"(?<![a-z0-9_])[a-z0-9_]{1,64}:[^\s<>\"'/][^\s<>\"']{0,511}(?![^\s<>\"'])")
_IDS_ASKED = 5000

# Returns those of some blob keys that are deleted, or would be.
Deleted: TypeAlias = Callable[[Iterable[str]], set[str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The memes to remove: those that match `where` and, if asked for, look similar.

    Attributes:
        looks_like: pHash-256 to compare pictures with.
        bits: largest Hamming distance; None compares nothing.
    """

    where: Where
    looks_like: str | None = None
    bits: int | None = None

    def memes(self, documents: DocumentStore) -> Iterator[Meme]:
        """Yield the memes in order of id, one batch in memory."""
        if self.looks_like is None or self.bits is None:
            yield from documents.scan(self.where)
            return
        for _, meme in near(documents, self.where, self.looks_like, self.bits):
            yield meme

    def similar(self, documents: DocumentStore) -> list[tuple[int, str]]:
        """Return distance and id of the nearest memes that look much the same but are not chosen, for review."""
        if self.looks_like is None:
            return []
        where = replace(self.where, image_key=None)
        others = (
            (bits, meme.id)
            for bits, meme in near(documents, where, self.looks_like, _SIMILAR_BITS)
            if meme.image and (meme.image.key != self.where.image_key if self.bits is None else bits > self.bits)
        )
        return heapq.nsmallest(_SIMILAR_SHOWN, others)

    def among(self, documents: DocumentStore, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are chosen."""
        asked = set(ids) if self.where.ids is None else set(ids).intersection(self.where.ids)
        narrowed = replace(self, where=replace(self.where, ids=tuple(asked)))
        return {meme.id for meme in narrowed.memes(documents)} if asked else set()


def near(documents: DocumentStore, where: Where, phash256: str, bits: int) -> Iterator[tuple[int, Meme]]:
    """Yield the memes whose picture is at most `bits` away from `phash256`, with the distance."""
    for meme in documents.scan(replace(where, image=True)):
        if meme.image and (distance := hamming(meme.image.phash256, phash256)) <= bits:
            yield distance, meme


class Plan(AbstractContextManager["Plan"]):
    """A preview of a purge, counted in a file in `folder`, not in memory.

    Attributes:
        memes: memes that would be deleted.
        blobs: pictures and masks that nothing else refers to.
        templates: ids of templates that would lose the picture made from those memes.
    """

    def __init__(self, documents: DocumentStore, choice: Choice, folder: Path) -> None:
        self.memes = 0
        self._documents = documents
        self._choice = choice
        self._file = sqlite3.connect(folder / "plan.db", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        # n: references by records that would be deleted.
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
        """Return those of `ids` that would be deleted."""
        return self._choice.among(self._documents, ids)

    def pictures(self, keys: Iterable[str]) -> set[str]:
        """Return those of the blobs `keys` that would be deleted with the memes."""
        found: set[str] = set()
        for key in keys:
            found.update(k for (k,) in self._file.execute("SELECT key FROM blobs WHERE key = ? AND goes", (key,)))
        return found

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def _refer(self, keys: Iterable[str]) -> None:
        self._file.execute("BEGIN")
        statement = "INSERT INTO blobs VALUES (?, 1, 0) ON CONFLICT (key) DO UPDATE SET n = n + 1"
        self._file.executemany(statement, [(key,) for key in keys])
        self._file.execute("COMMIT")

    def _decide(self) -> None:
        last = ""
        query = "SELECT key, n FROM blobs WHERE key > ? ORDER BY key LIMIT ?"
        while rows := self._file.execute(query, (last, _BATCH)).fetchall():
            total = self._documents.references(key for key, _ in rows)
            going = [(key,) for key, n in rows if total.get(key, 0) <= n]
            self._file.execute("BEGIN")
            self._file.executemany("UPDATE blobs SET goes = 1 WHERE key = ?", going)
            self._file.execute("COMMIT")
            last = rows[-1][0]


@dataclass(frozen=True, slots=True)
class Finished:
    """Number of blobs deleted, and ids of the templates that lost the picture that was made from removed memes."""

    blobs: int
    templates: list[str]


def remove(documents: DocumentStore, choice: Choice) -> int:
    """Purge the memes and return how many there were; `finish` must follow."""
    if choice.looks_like is None or choice.bits is None:
        return documents.purge(choice.where)
    batches = batched(choice.memes(documents), _BATCH)
    return sum(documents.purge(Where(ids=tuple(meme.id for meme in batch))) for batch in batches)


def finish(documents: DocumentStore, blobs: BlobStore) -> Finished:
    """Delete what this purge and killed ones left: template pictures made from removed memes, and orphaned blobs.

    The next run of the templates stage recovers such templates again.

    Raises:
        StoreError: a store refused or failed; the next call continues.
    """
    templates = []
    for template in _made_of(documents, documents.orphans):
        _drop_made(documents, template)
        templates.append(template.id)
    deleted = 0
    for keys in documents.noted_orphans():
        deleted += _delete(blobs, documents.orphans(keys))
        documents.settle_orphans(keys)
    return Finished(deleted, templates)


def sweep(
    documents: DocumentStore, blobs: BlobStore, *, dry: bool = False, young_seconds: float = YOUNG_SECONDS
) -> tuple[int, int]:
    """Delete unreferenced blobs, such as those of killed crawls. Returns the numbers of deleted and skipped blobs.

    Args:
        documents: where references are looked up.
        blobs: the store to sweep.
        dry: only count.
        young_seconds: skip younger blobs, whose record may still be on its way.
    """
    deleted = young = 0
    with ThreadPoolExecutor(_THREADS) as threads:
        for batch in batched(_unreferenced(blobs.keys(), documents.image_keys()), _BATCH):
            ages = zip(batch, threads.map(blobs.age, batch), strict=True)
            old = [key for key, age in ages if age is not None and age >= young_seconds]
            young += len(batch) - len(old)
            dead = set(old) - documents.references(old).keys()
            deleted += len(dead) if dry else _delete(blobs, dead)
    return deleted, young


def _unreferenced(there: Iterator[str], needed: Iterator[str]) -> Iterator[str]:
    """Yield the keys of `there` that are not in `needed`; both are sorted."""
    wanted = next(needed, None)
    for key in there:
        while wanted is not None and wanted < key:
            wanted = next(needed, None)
        if key != wanted:
            yield key


def _delete(blobs: BlobStore, keys: Iterable[str]) -> int:
    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(sum(threads.map(blobs.delete, batch)) for batch in batched(sorted(keys), _BATCH))


def _made_of(documents: DocumentStore, deleted: Deleted) -> Iterator[Template]:
    for batch in batched((template for template in documents.templates() if template.clean), _BATCH):
        over = deleted({key for template in batch for key in _sources(template)})
        yield from (template for template in batch if over.intersection(_sources(template)))


def _sources(template: Template) -> tuple[str, ...]:
    return template.clean.made_from if template.clean else ()


def _drop_made(documents: DocumentStore, template: Template) -> None:
    """Drop a template's computed picture and sketch, after recording their blobs as possible orphans."""
    made = template.clean
    if made is None:
        return
    documents.note_orphans(made.keys)
    documents.revise_template(
        template.id, lambda now: now.model_copy(update={"clean": None}) if now.clean == made else now
    )
    if template.image is None:
        documents.drop_sketches([(template.id, "")])


def pages_showing(folder: Path, removed: Callable[[Sequence[str]], set[str]]) -> Iterator[Path]:
    """Yield the run pages under `folder` that name a meme in `removed` (returns the removed ones of some ids)."""
    for path in sorted(folder.rglob("*.html")):
        try:
            page = path.read_bytes()
        except OSError:
            continue
        names = (html.unescape(found.group().decode(errors="replace")) for found in _ID.finditer(page))
        ids = dict.fromkeys(each for name in names for each in (name, name.rstrip(",.;")))
        if any(removed(part) for part in batched(ids, _IDS_ASKED)):
            yield path
