"""Memes, templates and sketches in MongoDB, each record written by itself."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import orjson
from bson import Binary, MaxKey
from pymongo import ReplaceOne

from memeloom.catalog.documents import (
    ALL,
    HAS_CAPTION,
    HAS_IMAGE,
    IS_READ,
    Counts,
    Memes,
    Sketches,
    StoredSketch,
    Templates,
    Upserted,
    Where,
    batched,
    revise,
    stage_counts,
)
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.mongo_removal import note_orphans
from memeloom.catalog.mongo_schema import (
    BLOB_FIELDS,
    CHUNK,
    banned,
    blob_keys,
    pack,
    queries,
    read,
)
from memeloom.catalog.records import Meme, Template

_STATE = {"$cond": [{"$gt": ["$record.merged_into", None]}, "merged", {"$ifNull": ["$record.state", "known"]}]}
# At 8 KB a sketch these are 2 MB.
_SKETCHES = 256


class MongoMemes(Memes):
    """The memes."""

    _database: MongoDatabase

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        total = Upserted()
        for chunk in batched(memes, CHUNK):
            with self._database.mapped():
                total += self._upsert_chunk(chunk)
        return total

    def get(self, meme_id: str) -> Meme | None:
        with self._database.mapped():
            document = self._database["memes"].find_one({"_id": meme_id})
        return read(Meme, document) if document else None

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        for query in queries(where, batch):
            for document in self._database.pages("memes", query, after=after, n=batch):
                yield read(Meme, document)

    def records(self, *, batch: int = 1000) -> Iterator[tuple[str, bytes]]:
        for document in self._database.pages("memes", {}, n=batch, fields={"record": 1}):
            yield document["_id"], orjson.dumps({"id": document["_id"], **document["record"]})

    def count(self, where: Where = ALL) -> int:
        with self._database.mapped():
            return sum(self._database["memes"].count_documents(query) for query in queries(where))

    def counts(self) -> Counts:
        bits = {name: {"$sum": {"$cond": [{"$in": ["$flags", [f for f in range(64) if f & bit]]}, 1, 0]}}
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
                unmatched=self._database["sketches"].count_documents({"_id": {"$lt": _key("\0", "")}}),
                stages=stage_counts(
                    (d["_id"]["stage"], d["_id"]["state"], d["_id"].get("reason"), d["n"]) for d in work
                ),
            )

    def image_keys(self) -> Iterator[str]:
        streams = (self._blob_keys(name, field) for name in ("memes", "templates") for field in BLOB_FIELDS)
        for key, _ in itertools.groupby(heapq.merge(*streams)):
            yield key

    def _upsert_chunk(self, chunk: Sequence[Meme]) -> Upserted:
        before = banned(self._database, [meme.id for meme in chunk])
        wanted = [meme for meme in chunk if meme.id not in before]
        inserted, updated = self._database.merge(
            "memes", wanted, key=lambda m: m.id, pack=pack, unpack=partial(read, Meme), combine=Meme.merged
        )
        # A purge bans ids before it deletes: we delete what was banned while we wrote.
        late = banned(self._database, [meme.id for meme in wanted])
        if refused := [meme for meme in chunk if meme.id in before | late]:
            note_orphans(self._database, {key for meme in refused for key in meme.blobs})
        if late:
            self._database["memes"].delete_many({"_id": {"$in": sorted(late)}})
        unchanged = len(wanted) - inserted - updated
        return Upserted(inserted, updated, unchanged, len(chunk) - len(wanted))

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


class MongoTemplates(Templates):
    """The templates."""

    _database: MongoDatabase

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        return sum(self._merge_templates(chunk, Template.merged) for chunk in batched(templates, CHUNK))

    def revise_template(self, template_id: str, change: Callable[[Template], Template]) -> Template | None:
        known = self.get_template(template_id)
        if known is None:
            return None
        revised = known

        def combine(known: Template, _: Template) -> Template:
            nonlocal revised
            revised = revise(known, change)
            return known if revised == known else revised

        self._merge_templates([revised], combine)
        return revised

    def get_template(self, template_id: str) -> Template | None:
        with self._database.mapped():
            document = self._database["templates"].find_one({"_id": template_id})
        return read(Template, document) if document else None

    def templates(self) -> Iterator[Template]:
        return (read(Template, document) for document in self._database.pages("templates", {}, n=500))

    def _merge_templates(self, chunk: Sequence[Template], combine: Callable[[Template, Template], Template]) -> int:
        with self._database.mapped():
            return sum(self._database.merge(
                "templates", chunk, key=lambda t: t.id, combine=combine, unpack=partial(read, Template), pack=pack
            ))  # fmt: skip


class MongoSketches(Sketches):
    """The sketches; the `_id` of each is its key."""

    _database: MongoDatabase

    def put_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        for batch in batched(sketches, _SKETCHES):
            with self._database.mapped():
                gone = banned(self._database, [sketch.meme for sketch in batch])
                # Bulk writes have no order: the later one of a key must be chosen here.
                wanted = {sketch.key: sketch.data for sketch in batch if sketch.meme not in gone}
                # A conflict means that another writer put the same sketch at the same moment: that one stays.
                self._database.bulk_write(
                    "sketches",
                    [
                        ReplaceOne[Document]({"_id": _key(*key)}, {"data": Binary(data)}, upsert=True)
                        for key, data in wanted.items()
                    ],
                )
                # A purge bans ids before it deletes: we delete what was banned while we wrote.
                if late := banned(self._database, [meme for _, meme in wanted]):
                    self._database["sketches"].delete_many({"_id.meme": {"$in": sorted(late)}})

    def sketches(self, template: str | None = None, *, unmatched: bool = False) -> Iterator[StoredSketch]:
        template = "" if unmatched else template
        # Unmatched sketches come before those of all templates.
        after = _key("", MaxKey()) if template is None else {"template": template}
        query = {} if template is None else {"_id": {"$lt": _key(template, MaxKey())}}
        for document in self._database.pages("sketches", query, after=after, n=_SKETCHES):
            yield StoredSketch(document["_id"]["template"], document["_id"]["meme"], bytes(document["data"]))

    def drop_sketches(self, keys: Iterable[tuple[str, str]]) -> int:
        dropped = 0
        for batch in batched(keys, CHUNK):
            with self._database.mapped():
                query = {"_id": {"$in": [_key(*key) for key in batch]}}
                dropped += self._database["sketches"].delete_many(query).deleted_count
        return dropped


def _key(template: str, meme: str | MaxKey) -> Document:
    return {"template": template, "meme": meme}
