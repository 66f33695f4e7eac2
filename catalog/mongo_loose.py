"""Blobs that lost what referred to them, in MongoDB: noted before a purge deletes, settled when they are deleted.

A document each: `_id`, the key, and `settled`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from memeloom.catalog.documents import batched
from memeloom.catalog.mongo_database import DUPLICATE_KEY, Document, MongoDatabase
from memeloom.catalog.mongo_forms import BLOB_FIELDS, CHUNK


def loosen(database: MongoDatabase, keys: Iterable[str]) -> None:
    """Note blobs, each by itself."""
    for batch in batched(keys, CHUNK):
        open_again = {"$set": {"settled": False}}
        requests = [UpdateOne({"_id": key}, open_again, upsert=True) for key in batch]
        with database.mapped():
            try:
                database["loose"].bulk_write(requests, ordered=False)
            except BulkWriteError as error:
                problems = [*error.details["writeErrors"], *error.details["writeConcernErrors"]]
                # Somebody noted the same one at the same moment.
                if any(problem["code"] != DUPLICATE_KEY for problem in problems):
                    raise


def loose(database: MongoDatabase) -> Iterator[list[str]]:
    """Yield what is not settled, in order, one query a batch."""
    last = ""
    while True:
        with database.mapped():
            found = database["loose"].find({"settled": False, "_id": {"$gt": last}}, {"_id": 1})
            page = [document["_id"] for document in found.sort("_id", 1).limit(CHUNK)]
        if not page:
            return
        yield page
        last = page[-1]


def gone(database: MongoDatabase, keys: Iterable[str]) -> set[str]:
    """Those of `keys` that were noted and that nothing refers to."""
    found: set[str] = set()
    for batch in batched(keys, CHUNK):
        with database.mapped():
            noted = {d["_id"] for d in database["loose"].find({"_id": {"$in": batch}}, {"_id": 1})}
        if noted:
            found |= noted - references(database, noted).keys()
    return found


def settle(database: MongoDatabase, keys: Sequence[str]) -> None:
    """Mark what is gone, forget what is needed."""
    for batch in batched(keys, CHUNK):
        over = gone(database, batch)
        with database.mapped():
            database["loose"].update_many({"_id": {"$in": sorted(over)}}, {"$set": {"settled": True}})
            database["loose"].delete_many({"_id": {"$in": sorted({*batch} - over)}})


def references(database: MongoDatabase, keys: Iterable[str]) -> dict[str, int]:
    """How many records refer to each of `keys`, those of no record left out."""
    found: Counter[str] = Counter()
    for batch in batched(keys, CHUNK):
        for name in ("memes", "templates"):
            for field in BLOB_FIELDS:
                steps: list[Document] = [
                    {"$match": {field: {"$in": batch}}},
                    {"$group": {"_id": f"${field}", "n": {"$sum": 1}}},
                ]
                with database.mapped():
                    found.update({d["_id"]: d["n"] for d in database[name].aggregate(steps)})
    return dict(found)
