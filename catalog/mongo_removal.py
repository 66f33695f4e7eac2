"""Removal in MongoDB: deleted memes, and possible orphans.

A possible orphan is a document of the collection `loose`: `_id`, the key, and `settled`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pymongo import InsertOne, UpdateOne

from memeloom.catalog.documents import Removal, Where, batched
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.mongo_schema import BLOB_FIELDS, CHUNK, banned, blob_keys, queries


class MongoRemoval(Removal):
    """Deletes 1,000 memes at a time: their ids are banned first and the memes deleted last, so that it can go on."""

    _database: MongoDatabase

    def purge(self, where: Where) -> int:
        deleted = 0
        fields = dict.fromkeys(BLOB_FIELDS, 1)
        memes = (meme for query in queries(where) for meme in self._database.pages("memes", query, fields=fields))
        for page in batched(memes, CHUNK):
            ids = [document["_id"] for document in page]
            with self._database.mapped():
                # A conflict means that the id is banned already.
                self._database.bulk_write("removed", [InsertOne({"_id": meme_id}) for meme_id in ids])
            self.note_orphans({key for document in page for key in blob_keys(document)})
            with self._database.mapped():
                self._database["work"].delete_many({"_id.meme": {"$in": ids}})
                self._database["sketches"].delete_many({"_id.meme": {"$in": ids}})
                deleted += self._database["memes"].delete_many({"_id": {"$in": ids}}).deleted_count
        return deleted

    def scrub(self) -> bool:
        """Do nothing: the server's files are out of our reach, and freed space is overwritten when it is reused."""
        return True

    def purged(self, ids: Sequence[str]) -> set[str]:
        with self._database.mapped():
            return {i for chunk in batched(ids, CHUNK) for i in banned(self._database, chunk)}

    def note_orphans(self, keys: Iterable[str]) -> None:
        note_orphans(self._database, keys)

    def noted_orphans(self) -> Iterator[list[str]]:
        noted = self._database.pages("loose", {"settled": False}, fields={"_id": 1})
        return batched((document["_id"] for document in noted), CHUNK)

    def orphans(self, keys: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for batch in batched(keys, CHUNK):
            with self._database.mapped():
                noted = {d["_id"] for d in self._database["loose"].find({"_id": {"$in": batch}}, {"_id": 1})}
            if noted:
                found |= noted - self.references(noted).keys()
        return found

    def settle_orphans(self, keys: Sequence[str]) -> None:
        for batch in batched(keys, CHUNK):
            gone = self.orphans(batch)
            with self._database.mapped():
                self._database["loose"].update_many({"_id": {"$in": sorted(gone)}}, {"$set": {"settled": True}})
                self._database["loose"].delete_many({"_id": {"$in": sorted({*batch} - gone)}})

    def references(self, keys: Iterable[str]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for batch in batched(keys, CHUNK):
            for name in ("memes", "templates"):
                for field in BLOB_FIELDS:
                    steps: list[Document] = [
                        {"$match": {field: {"$in": batch}}},
                        {"$group": {"_id": f"${field}", "n": {"$sum": 1}}},
                    ]
                    with self._database.mapped():
                        found.update({d["_id"]: d["n"] for d in self._database[name].aggregate(steps)})
        return dict(found)


def note_orphans(database: MongoDatabase, keys: Iterable[str]) -> None:
    """Note blobs that may be orphaned."""
    for batch in batched(keys, CHUNK):
        noted = {"$set": {"settled": False}}
        with database.mapped():
            # A conflict means that another writer noted the blob at the same moment.
            database.bulk_write("loose", [UpdateOne({"_id": key}, noted, upsert=True) for key in batch])
