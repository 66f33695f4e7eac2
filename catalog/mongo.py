"""Documents in MongoDB (server 4.4 or newer), for crawls and workers on many machines.

A meme is one document: `_id`, `revision` (moves on with every change), `flags` and `record`, its facts.
Leases are measured by the server's clock, so the workers' clocks do not matter.
"""

import heapq
import itertools
import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING, IndexModel, InsertOne
from pymongo.errors import BulkWriteError

from catalog.documents import (
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
from catalog.errors import LeaseLost
from catalog.mongo_database import Document, MongoDatabase
from catalog.mongo_forms import (
    BLOB_FIELDS,
    CHUNK,
    banned,
    blob_keys,
    later,
    pack_meme,
    pack_template,
    queries,
    read_meme,
    read_template,
    stage_counts,
    work_id,
)
from catalog.mongo_sketches import drop_sketches, put_sketches, read_sketches
from catalog.records import Meme, Template

_VERSION = 2
_ENQUEUE_CHUNK = 20_000
_OPEN = {"$in": ["pending", "leased"]}
_EXPIRED = {"$lte": ["$ready_at", "$$NOW"]}
_RUNNING = {"$gt": ["$ready_at", "$$NOW"]}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INDEXES = {
    "memes": (
        IndexModel([("record.template.id", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("record.source", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("record.author", ASCENDING), ("_id", ASCENDING)], sparse=True),
        *(IndexModel([(field, ASCENDING)], sparse=True) for field in BLOB_FIELDS),
    ),
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
            key = {"stage": "$stage", "state": "$state", "reason": "$reason"}
            work = self._database["work"].aggregate([{"$group": {"_id": key, "n": {"$sum": 1}}}])
            return Counts(
                memes=total.get("memes", 0),
                images=total.get("images", 0),
                captions=total.get("captions", 0),
                read=total.get("read", 0),
                sources={d["_id"]: d["n"] for d in by_source},
                templates={d["_id"]: d["n"] for d in by_template},
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
        return sum(self._enqueue(stage, query, again=again) for query in queries(where))

    def lease(self, stage: str, n: int, ttl: float, attempts: int) -> list[Lease]:
        """Claim up to `n` pieces of work for `ttl` seconds."""
        work, token = self._database["work"], secrets.token_hex(8)
        leases: list[Lease] = []
        with self._database.mapped():
            while len(leases) < n:
                found = self._claimable(stage, 4 * (n - len(leases)))
                if not found:
                    break
                spent = [d["_id"] for d in found if d["state"] == "leased" and d["attempt"] >= attempts]
                self._abandon(spent, attempts)
                ids = _spread([d for d in found if d["_id"] not in spent], n - len(leases))
                claim = {
                    "state": "leased",
                    "token": token,
                    "attempt": {"$add": ["$attempt", 1]},
                    "ready_at": later(ttl),
                }
                claimable = {"_id": {"$in": ids}, "state": _OPEN, "$expr": _EXPIRED}
                if work.update_many(claimable, [{"$set": claim}]).modified_count:
                    mine = work.find({"_id": {"$in": ids}, "token": token}, {"attempt": 1})
                    leases += (Lease(stage, d["_id"]["meme"], token, d["attempt"]) for d in mine)
        return sorted(leases, key=lambda lease: lease.meme_id)

    def extend(self, lease: Lease, ttl: float) -> None:
        """Hold on for another `ttl` seconds from now. Raises LeaseLost."""
        self._update_held(lease, [{"$set": {"ready_at": later(ttl)}}])

    def ack(self, leases: Sequence[Lease]) -> int:
        """The work is done. Returns how many leases were still held."""
        return self._let_go(leases, {"$set": {"state": "done"}, "$unset": {"ready_at": "", "token": "", "reason": ""}})

    def release(self, leases: Sequence[Lease]) -> int:
        """Pending again as before; what had failed once stays behind what was never tried."""
        ready_at = {"$cond": [{"$gt": ["$attempt", 1]}, "$$NOW", _EPOCH]}
        change = {"state": "pending", "attempt": {"$subtract": ["$attempt", 1]}, "ready_at": ready_at}
        return self._let_go(leases, [{"$set": change}, {"$unset": "token"}])

    def fail(self, lease: Lease, reason: str, attempts: int) -> None:
        """Back to pending, behind what was never tried, or failed after the last attempt. Raises LeaseLost."""
        if lease.attempt >= attempts:
            change = {"$set": {"state": "failed", "reason": {"$literal": reason}}}
            self._update_held(lease, [change, {"$unset": ["ready_at", "token"]}])
        else:
            change = {"$set": {"state": "pending", "reason": {"$literal": reason}, "ready_at": "$$NOW"}}
            self._update_held(lease, [change, {"$unset": ["token"]}])

    def failed(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yield id and reason of what failed for good, in order of id."""
        last = ""
        while True:
            query = {"stage": stage, "state": "failed", "_id": {"$gt": work_id(stage, last)}}
            with self._database.mapped():
                page = list(self._database["work"].find(query, {"reason": 1}).sort("_id", 1).limit(CHUNK))
            if not page:
                return
            yield from ((document["_id"]["meme"], document["reason"]) for document in page)
            last = page[-1]["_id"]["meme"]

    def retry(self, stage: str, reason: str | None = None) -> int:
        """Make failed work pending again, its attempts counted anew. Returns how many."""
        query = {"stage": stage, "state": "failed"} | ({} if reason is None else {"reason": reason})
        change = {"$set": {"state": "pending", "ready_at": _EPOCH, "attempt": 0}, "$unset": {"reason": ""}}
        with self._database.mapped():
            return self._database["work"].update_many(query, change).modified_count

    def purge(self, where: Where) -> tuple[int, list[str]]:
        """Delete matching memes; their ids are remembered before they go."""
        deleted, keys = 0, set[str]()
        for chunk in batched(self._pages(where, "", CHUNK, dict.fromkeys(BLOB_FIELDS, 1)), CHUNK):
            ids = [document["_id"] for document in chunk]
            with self._database.mapped():
                self._remember(ids)
                deleted += self._database["memes"].delete_many({"_id": {"$in": ids}}).deleted_count
                self._database["work"].delete_many({"_id.meme": {"$in": ids}})
                self._database["sketches"].delete_many({"_id.meme": {"$in": ids}})
            keys.update(key for document in chunk for key in blob_keys(document))
        return deleted, sorted(keys - self._used(sorted(keys)))

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed."""
        with self._database.mapped():
            return {i for chunk in batched(ids, CHUNK) for i in banned(self._database, chunk)}

    def close(self) -> None:
        """Close this process's connections."""
        self._database.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process connects for itself."""
        return type(self), self._arguments

    def _upsert_chunk(self, chunk: Sequence[Meme]) -> Upserted:
        gone = banned(self._database, [meme.id for meme in chunk])
        wanted = [meme for meme in chunk if meme.id not in gone]
        inserted, updated = self._database.merge(
            "memes", wanted, key=lambda m: m.id, pack=pack_meme, unpack=read_meme, combine=Meme.merged
        )
        # A purge remembers before it deletes: what it remembered while we wrote is ours to take back.
        if late := banned(self._database, [meme.id for meme in wanted]):
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

    def _used(self, keys: Sequence[str]) -> set[str]:
        used: set[str] = set()
        for chunk in batched(keys, CHUNK):
            for name in ("memes", "templates"):
                for field in BLOB_FIELDS:
                    with self._database.mapped():
                        found = self._database[name].find({field: {"$in": chunk}}, {field: 1})
                        used.update(key for document in found for key in blob_keys(document))
        return used

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

    def _enqueue(self, stage: str, query: Document, *, again: bool) -> int:
        memes, work = self._database["memes"], self._database["work"]
        pending, last, token = 0, "", secrets.token_hex(8)
        key = {"stage": {"$literal": stage}, "meme": "$_id"}
        job = {"_id": key, "stage": {"$literal": stage}, "state": "pending", "ready_at": _EPOCH,
               "attempt": {"$literal": 0}, "enqueued_by": {"$literal": token}}  # fmt: skip
        anew = {"$cond": [{"$eq": ["$state", "done"]}, {"$mergeObjects": ["$$ROOT", "$$new"]}, "$$ROOT"]}
        matched = [{"$replaceWith": anew}] if again else "keepExisting"
        merge = {"into": "work", "on": "_id", "whenMatched": matched, "whenNotMatched": "insert"}
        while True:
            rest = {"$and": [query, {"_id": {"$gt": last}}]}
            with self._database.mapped():
                end = next(memes.find(rest, {"_id": 1}).sort("_id", 1).skip(_ENQUEUE_CHUNK - 1).limit(1), None)
                upper = {"_id": {"$lte": end["_id"]}} if end else {}
                memes.aggregate([{"$match": {"$and": [rest, upper]}}, {"$project": job}, {"$merge": merge}])
                between = {"$gt": work_id(stage, last)} | ({"$lte": work_id(stage, end["_id"])} if end else {})
                pending += work.count_documents({"_id": between, "enqueued_by": token})
            if end is None:
                return pending
            last = end["_id"]

    def _claimable(self, stage: str, n: int) -> list[Document]:
        now = self._database["work"].database.command("hello")["localTime"]
        query = {"stage": stage, "ready_at": {"$lte": now}}
        return list(self._database["work"].find(query, {"state": 1, "attempt": 1}).sort("ready_at", 1).limit(n))

    def _abandon(self, ids: Sequence[Document], attempts: int) -> None:
        if ids:
            query = {"_id": {"$in": ids}, "state": "leased", "attempt": {"$gte": attempts}, "$expr": _EXPIRED}
            change = {"$set": {"state": "failed", "reason": "abandoned"}, "$unset": {"ready_at": "", "token": ""}}
            self._database["work"].update_many(query, change)

    def _let_go(self, leases: Sequence[Lease], change: Document | list[Document]) -> int:
        held = 0
        with self._database.mapped():
            for (stage, token), group in itertools.groupby(
                sorted(leases, key=lambda x: (x.stage, x.token)), key=lambda x: (x.stage, x.token)
            ):
                for chunk in batched(group, CHUNK):
                    ids = [work_id(stage, lease.meme_id) for lease in chunk]
                    query = {"_id": {"$in": ids}, "token": token, "state": "leased", "$expr": _RUNNING}
                    held += self._database["work"].update_many(query, change).modified_count
        return held

    def _update_held(self, lease: Lease, change: list[Document]) -> None:
        query = {
            "_id": work_id(lease.stage, lease.meme_id),
            "token": lease.token,
            "state": "leased",
            "$expr": _RUNNING,
        }
        with self._database.mapped():
            if not self._database["work"].update_one(query, change).matched_count:
                raise LeaseLost(f"{lease.stage}: the lease of {lease.meme_id} ran out; its work is someone else's now")


def _spread(work: Sequence[Document], n: int) -> list[Any]:
    """Up to `n` ids of `work`, never tried ones first. Workers that ask at once would all reach for the same few."""
    shuffled = random.sample(work, len(work))
    return [document["_id"] for document in sorted(shuffled, key=lambda document: document["attempt"] > 0)[:n]]
