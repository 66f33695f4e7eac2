"""Work queues in MongoDB: one document a piece of work, updated only by its lease holder.

Leases use the server's clock, so the workers' clocks do not matter.
"""

import itertools
import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pymongo import ReplaceOne

from memeloom.catalog.documents import ALL, Lease, Where, WorkQueue, batched
from memeloom.catalog.errors import LeaseLost
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.mongo_schema import CHUNK, banned, queries, read
from memeloom.catalog.records import Meme

_ENQUEUE_CHUNK = 20_000
_OPEN = {"$in": ["pending", "leased"]}
_EXPIRED = {"$lte": ["$ready_at", "$$NOW"]}
_RUNNING = {"$gt": ["$ready_at", "$$NOW"]}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MongoWork(WorkQueue):
    """The work queue. Failed attempts are queued behind what was never tried."""

    _database: MongoDatabase

    def enqueue(self, stage: str, where: Where, *, again: bool = False) -> int:
        return sum(self._enqueue(stage, query, again=again) for query in queries(where))

    def lease(self, stage: str, n: int, ttl: float, attempts: int) -> list[Lease]:
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
                    "ready_at": _later(ttl),
                }
                claimable = {"_id": {"$in": ids}, "state": _OPEN, "$expr": _EXPIRED}
                if work.update_many(claimable, [{"$set": claim}]).modified_count:
                    mine = work.find({"_id": {"$in": ids}, "token": token}, {"attempt": 1})
                    leases += (Lease(stage, d["_id"]["meme"], token, d["attempt"]) for d in mine)
        return sorted(leases, key=lambda lease: lease.meme_id)

    def extend(self, lease: Lease, ttl: float) -> None:
        self._update_held(lease, [{"$set": {"ready_at": _later(ttl)}}])

    def ack(self, leases: Sequence[Lease]) -> int:
        return self._update_all(
            leases, {"$set": {"state": "done"}, "$unset": {"ready_at": "", "token": "", "reason": ""}}
        )

    def release(self, leases: Sequence[Lease]) -> int:
        ready_at = {"$cond": [{"$gt": ["$attempt", 1]}, "$$NOW", _EPOCH]}
        change = {"state": "pending", "attempt": {"$subtract": ["$attempt", 1]}, "ready_at": ready_at}
        return self._update_all(leases, [{"$set": change}, {"$unset": "token"}])

    def fail(self, lease: Lease, reason: str, attempts: int) -> None:
        if lease.attempt >= attempts:
            change = {"$set": {"state": "failed", "reason": {"$literal": reason}}}
            self._update_held(lease, [change, {"$unset": ["ready_at", "token"]}])
        else:
            change = {"$set": {"state": "pending", "reason": {"$literal": reason}, "ready_at": "$$NOW"}}
            self._update_held(lease, [change, {"$unset": ["token"]}])

    def failed(self, stage: str) -> Iterator[tuple[str, str]]:
        query = {"stage": stage, "state": "failed"}
        for document in self._database.pages("work", query, after=_id(stage, ""), fields={"reason": 1}):
            yield document["_id"]["meme"], document["reason"]

    def retry(self, stage: str, reason: str | None = None) -> int:
        query = {"stage": stage, "state": "failed"} | ({} if reason is None else {"reason": reason})
        change = {"$set": {"state": "pending", "ready_at": _EPOCH, "attempt": 0}, "$unset": {"reason": ""}}
        with self._database.mapped():
            return self._database["work"].update_many(query, change).modified_count

    def record_failures(self, stage: str, reasons: Mapping[str, str]) -> None:
        for chunk in batched(reasons, CHUNK):
            with self._database.mapped():
                known = {d["_id"] for d in self._database["memes"].find({"_id": {"$in": chunk}}, {"_id": 1})}
                work = (
                    {"_id": _id(stage, meme_id), "stage": stage, "state": "failed", "attempt": 0,
                     "reason": reasons[meme_id]}
                    for meme_id in chunk if meme_id in known
                )  # fmt: skip
                self._database.bulk_write(
                    "work", [ReplaceOne[Document]({"_id": each["_id"]}, each, upsert=True) for each in work]
                )
                # A purge bans ids before it deletes their work: we delete what was banned while we wrote.
                if late := banned(self._database, chunk):
                    gone = [_id(stage, meme_id) for meme_id in late]
                    self._database["work"].delete_many({"_id": {"$in": gone}})

    def failed_among(self, stage: str, ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for chunk in batched(ids, CHUNK):
            query = {"_id": {"$in": [_id(stage, meme_id) for meme_id in chunk]}, "state": "failed"}
            with self._database.mapped():
                found.update(d["_id"]["meme"] for d in self._database["work"].find(query, {"_id": 1}))
        return found

    def without_picture(self, stage: str, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        (query,) = queries(replace(where, image=None, address=None, ids=None))
        found = self._database.pages("memes", {**query, "missing": True}, after=after, n=batch)
        for page in batched(found, batch):
            failed = self.failed_among(stage, [document["_id"] for document in page])
            yield from (read(Meme, document) for document in page if document["_id"] not in failed)

    def forget_work(self, stage: str, ids: Sequence[str] | None = None) -> int:
        work = self._database["work"]
        with self._database.mapped():
            if ids is None:
                return work.delete_many({"stage": stage}).deleted_count
            keys = ([_id(stage, meme_id) for meme_id in chunk] for chunk in batched(ids, CHUNK))
            return sum(work.delete_many({"_id": {"$in": chunk}}).deleted_count for chunk in keys)

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
                between = {"$gt": _id(stage, last)} | ({"$lte": _id(stage, end["_id"])} if end else {})
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

    def _update_all(self, leases: Sequence[Lease], change: Document | list[Document]) -> int:
        held = 0
        with self._database.mapped():
            for (stage, token), group in itertools.groupby(
                sorted(leases, key=lambda x: (x.stage, x.token)), key=lambda x: (x.stage, x.token)
            ):
                for chunk in batched(group, CHUNK):
                    ids = [_id(stage, lease.meme_id) for lease in chunk]
                    query = {"_id": {"$in": ids}, "token": token, "state": "leased", "$expr": _RUNNING}
                    held += self._database["work"].update_many(query, change).modified_count
        return held

    def _update_held(self, lease: Lease, change: list[Document]) -> None:
        query = {
            "_id": _id(lease.stage, lease.meme_id),
            "token": lease.token,
            "state": "leased",
            "$expr": _RUNNING,
        }
        with self._database.mapped():
            if not self._database["work"].update_one(query, change).matched_count:
                raise LeaseLost(f"{lease.stage}: the lease of {lease.meme_id} expired; another worker may hold it")


def _spread(work: Sequence[Document], n: int) -> list[Any]:
    """Return up to `n` random ids, untried work first; random, so that workers do not claim the same work."""
    shuffled = random.sample(work, len(work))
    return [document["_id"] for document in sorted(shuffled, key=lambda document: document["attempt"] > 0)[:n]]


def _id(stage: str, meme_id: str) -> Document:
    return {"stage": stage, "meme": meme_id}


def _later(ttl: float) -> Document:
    return {"$add": ["$$NOW", round(ttl * 1000)]}
