"""Documents in MongoDB (server 4.4 or newer), for crawls and workers on many machines.

A meme is one document: `_id`, `revision` (moves on with every change), `flags` and `record`, its facts.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
from pymongo import ASCENDING, IndexModel, InsertOne
from pymongo.errors import BulkWriteError

from memeloom.catalog.documents import (
    ALL,
    HAS_CAPTION,
    HAS_IMAGE,
    IS_READ,
    Counts,
    Lease,
    StoredSketch,
    Upserted,
    Where,
    batched,
    revise,
)
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.mongo_forms import (
    BLOB_FIELDS,
    CHUNK,
    banned,
    blob_keys,
    pack_meme,
    pack_template,
    queries,
    read_meme,
    read_template,
    stage_counts,
)
from memeloom.catalog.mongo_loose import gone, loose, loosen, references, settle
from memeloom.catalog.mongo_sketches import count_strangers, drop_sketches, put_sketches, read_sketches
from memeloom.catalog.mongo_work import MongoWork
from memeloom.catalog.records import Meme, Template

_VERSION = 3
# What `Counts.template_records` calls a record.
_STATE = {"$cond": [{"$gt": ["$record.merged_into", None]}, "merged", {"$ifNull": ["$record.state", "known"]}]}
_INDEXES = {
    "memes": (
        IndexModel([("record.template.id", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("record.source", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("record.author", ASCENDING), ("_id", ASCENDING)], sparse=True),
        *(IndexModel([(field, ASCENDING)], sparse=True) for field in BLOB_FIELDS),
    ),
    "loose": (IndexModel([("settled", ASCENDING), ("_id", ASCENDING)]),),
    "sketches": (IndexModel([("_id.meme", ASCENDING)]),),
    "work": (
        IndexModel([("stage", ASCENDING), ("ready_at", ASCENDING)],
                   partialFilterExpression={"ready_at": {"$exists": True}}),
        IndexModel([("stage", ASCENDING), ("state", ASCENDING), ("reason", ASCENDING)]),
        IndexModel([("token", ASCENDING)], sparse=True),
        IndexModel([("_id.meme", ASCENDING)]),
    ),
}  # fmt: skip


class MongoDocuments:
    """A `DocumentStore` in the MongoDB database that `url` names.

    timeout_seconds: deadline of one call to the server. Fork- and pickle-safe.

    Raises:
        ConfigError: the URL cannot be used, or names no database.
        StoreError: the server cannot be reached, denies access, or holds a catalog of another version.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._arguments = (url, timeout_seconds)
        self._database = MongoDatabase(url, timeout_seconds)
        self._work = MongoWork(self._database)
        try:
            self._database.prepare(_VERSION, _INDEXES)
        except BaseException:
            self._database.close()
            raise

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Insert or merge by id; each record is durable when it returns."""
        total = Upserted()
        for chunk in batched(memes, CHUNK):
            with self._database.mapped():
                total += self._upsert_chunk(chunk)
        return total

    def get(self, meme_id: str) -> Meme | None:
        """The meme with that id."""
        with self._database.mapped():
            document = self._database["memes"].find_one({"_id": meme_id})
        return read_meme(document) if document else None

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        """Yield matching memes in order of id, one query a batch."""
        for document in self._pages(where, after, batch, None):
            yield read_meme(document)

    def records(self, *, batch: int = 1000) -> Iterator[tuple[str, bytes]]:
        """Yield id and JSON of every meme in order of id, one query a batch."""
        for document in self._pages(ALL, "", batch, {"record": 1}):
            yield document["_id"], orjson.dumps({"id": document["_id"], **document["record"]})

    def count(self, where: Where = ALL) -> int:
        """How many memes match."""
        with self._database.mapped():
            return sum(self._database["memes"].count_documents(query) for query in queries(where))

    def counts(self) -> Counts:
        """What the store holds."""
        bits = {name: {"$sum": {"$cond": [{"$in": ["$flags", [f for f in range(16) if f & bit]]}, 1, 0]}}
                for name, bit in (("images", HAS_IMAGE), ("captions", HAS_CAPTION), ("read", IS_READ))}  # fmt: skip
        with self._database.mapped():
            memes = self._database["memes"]
            total = next(iter(memes.aggregate([{"$group": {"_id": None, "memes": {"$sum": 1}, **bits}}])), {})
            by_source = memes.aggregate(
                [{"$group": {"_id": "$record.source", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
            )
            by_template = memes.aggregate([
                {"$match": {"record.template.id": {"$type": "string"}}},
                {"$group": {"_id": "$record.template.id", "n": {"$sum": 1}}},
                {"$sort": {"n": -1, "_id": 1}},
            ], allowDiskUse=True)  # fmt: skip
            by_state = self._database["templates"].aggregate([{"$group": {"_id": _STATE, "n": {"$sum": 1}}}])
            key = {"stage": "$stage", "state": "$state", "reason": "$reason"}
            work = self._database["work"].aggregate([{"$group": {"_id": key, "n": {"$sum": 1}}}])
            return Counts(
                memes=total.get("memes", 0),
                images=total.get("images", 0),
                captions=total.get("captions", 0),
                read=total.get("read", 0),
                sources={d["_id"]: d["n"] for d in by_source},
                templates={d["_id"]: d["n"] for d in by_template},
                template_records={d["_id"]: d["n"] for d in by_state},
                strangers=count_strangers(self._database),
                stages=stage_counts(work),
            )

    def image_keys(self) -> Iterator[str]:
        """The blob keys that memes or templates refer to, each once, in order."""
        streams = (self._blob_keys(name, field) for name in ("memes", "templates") for field in BLOB_FIELDS)
        for key, _ in itertools.groupby(heapq.merge(*streams)):
            yield key

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Insert or merge by id, each by itself. Returns how many are new or changed."""
        return sum(self._merge_templates(chunk, Template.merged) for chunk in batched(templates, CHUNK))

    def revise_template(self, template_id: str, change: Callable[[Template], Template]) -> Template | None:
        """Put what `change` makes of a template in its place, unless it moved on meanwhile: then once more."""
        with self._database.mapped():
            document = self._database["templates"].find_one({"_id": template_id})
        if document is None:
            return None
        revised = read_template(document)

        def combine(known: Template, _: Template) -> Template:
            nonlocal revised
            revised = revise(known, change)
            return known if revised == known else revised

        self._merge_templates([revised], combine)
        return revised

    def templates(self) -> Iterator[Template]:
        """All templates in order of id."""
        last = ""
        while True:
            with self._database.mapped():
                page = list(self._database["templates"].find({"_id": {"$gt": last}}).sort("_id", 1).limit(500))
            if not page:
                return
            yield from map(read_template, page)
            last = page[-1]["_id"]

    def put_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        """Insert or replace by key, 256 at a time."""
        put_sketches(self._database, sketches)

    def sketches(self, template: str | None = None, *, strangers: bool = False) -> Iterator[StoredSketch]:
        """Yield sketches in order of key, 256 in memory."""
        return read_sketches(self._database, "" if strangers else template)

    def drop_sketches(self, keys: Iterable[tuple[str, str]]) -> int:
        """Delete the sketches with these keys. Returns how many there were."""
        return drop_sketches(self._database, keys)

    def enqueue(self, stage: str, where: Where, *, again: bool = False) -> int:
        """Make matching memes pending work of `stage`; the server copies them, 20,000 at a time."""
        return self._work.enqueue(stage, where, again=again)

    def lease(self, stage: str, n: int, ttl: float, attempts: int) -> list[Lease]:
        """Claim up to `n` pieces of work for `ttl` seconds."""
        return self._work.lease(stage, n, ttl, attempts)

    def extend(self, lease: Lease, ttl: float) -> None:
        """Hold on for another `ttl` seconds from now. Raises LeaseLost."""
        self._work.extend(lease, ttl)

    def ack(self, leases: Sequence[Lease]) -> int:
        """The work is done. Returns how many leases were still held."""
        return self._work.ack(leases)

    def release(self, leases: Sequence[Lease]) -> int:
        """Pending again as before. Returns how many leases were still held."""
        return self._work.release(leases)

    def fail(self, lease: Lease, reason: str, attempts: int) -> None:
        """Back to pending, behind what was never tried, or failed after the last attempt. Raises LeaseLost."""
        self._work.fail(lease, reason, attempts)

    def failed(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yield id and reason of what failed for good, in order of id."""
        return self._work.failed(stage)

    def retry(self, stage: str, reason: str | None = None) -> int:
        """Make failed work pending again, its attempts counted anew. Returns how many."""
        return self._work.retry(stage, reason)

    def purge(self, where: Where) -> int:
        """Delete matching memes, 1,000 at a time: remembered first and deleted last, so that a killed purge goes on."""
        deleted = 0
        for chunk in batched(self._pages(where, "", CHUNK, dict.fromkeys(BLOB_FIELDS, 1)), CHUNK):
            ids = [document["_id"] for document in chunk]
            with self._database.mapped():
                self._remember(ids)
            self.loosen({key for document in chunk for key in blob_keys(document)})
            with self._database.mapped():
                self._database["work"].delete_many({"_id.meme": {"$in": ids}})
                self._database["sketches"].delete_many({"_id.meme": {"$in": ids}})
                deleted += self._database["memes"].delete_many({"_id": {"$in": ids}}).deleted_count
        return deleted

    def scrub(self) -> bool:
        """The server's files are its own: it frees space, and fills it again when it likes."""
        return True

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed."""
        with self._database.mapped():
            return {i for chunk in batched(ids, CHUNK) for i in banned(self._database, chunk)}

    def loosen(self, keys: Iterable[str]) -> None:
        """Note blobs that may have lost what last referred to them."""
        loosen(self._database, keys)

    def loose(self) -> Iterator[list[str]]:
        """Yield what was noted and is not settled, a batch in memory."""
        return loose(self._database)

    def gone(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that were ever noted and that nothing refers to now."""
        return gone(self._database, keys)

    def settle(self, keys: Sequence[str]) -> None:
        """Take keys off `loose`."""
        settle(self._database, keys)

    def references(self, keys: Iterable[str]) -> dict[str, int]:
        """How many memes and templates refer to each blob."""
        return references(self._database, keys)

    def close(self) -> None:
        """Close this process's connections."""
        self._database.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process connects for itself."""
        return type(self), self._arguments

    def _upsert_chunk(self, chunk: Sequence[Meme]) -> Upserted:
        before = banned(self._database, [meme.id for meme in chunk])
        wanted = [meme for meme in chunk if meme.id not in before]
        inserted, updated = self._database.merge(
            "memes", wanted, key=lambda m: m.id, pack=pack_meme, unpack=read_meme, combine=Meme.merged
        )
        # A purge remembers before it deletes: what it remembered while we wrote is ours to take back.
        late = banned(self._database, [meme.id for meme in wanted])
        if left := [meme for meme in chunk if meme.id in before | late]:
            loosen(self._database, {key for meme in left for key in meme.blobs})
        if late:
            self._database["memes"].delete_many({"_id": {"$in": sorted(late)}})
        unchanged = len(wanted) - inserted - updated
        return Upserted(inserted, updated, unchanged, len(chunk) - len(wanted))

    def _merge_templates(self, chunk: Sequence[Template], combine: Callable[[Template, Template], Template]) -> int:
        with self._database.mapped():
            return sum(self._database.merge(
                "templates", chunk, key=lambda t: t.id, combine=combine, unpack=read_template, pack=pack_template
            ))  # fmt: skip

    def _remember(self, ids: Sequence[str]) -> None:
        try:
            self._database["removed"].bulk_write([InsertOne({"_id": i}) for i in ids], ordered=False)
        except BulkWriteError as error:
            if any(problem["code"] != 11000 for problem in error.details["writeErrors"]):
                raise

    def _pages(self, where: Where, after: str, batch: int, fields: Document | None) -> Iterator[Document]:
        for query in queries(where, batch):
            last = after
            while True:
                paged = {"$and": [query, {"_id": {"$gt": last}}]}
                with self._database.mapped():
                    page = list(
                        self._database["memes"].find(paged, fields, batch_size=batch).sort("_id", 1).limit(batch)
                    )
                if not page:
                    break
                yield from page
                last = page[-1]["_id"]

    def _blob_keys(self, collection: str, field: str) -> Iterator[str]:
        last = ""
        while True:
            with self._database.mapped():
                found = self._database[collection].find({field: {"$gt": last}}, {field: 1})
                page = [key for d in found.sort(field, 1).limit(CHUNK) for key in blob_keys(d)]
            if not page:
                return
            yield from (key for key, _ in itertools.groupby(page))
            last = page[-1]
