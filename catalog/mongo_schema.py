"""The collections of a catalog in MongoDB: indexes, records in documents, conditions as queries."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic import ValidationError
from pymongo import ASCENDING, IndexModel

from memeloom.catalog.documents import Where, batched, flags
from memeloom.catalog.errors import StoreCorrupt
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.records import Meme, Template

CHUNK = 1000
# Where documents of memes and templates refer to blobs.
BLOB_FIELDS = ("record.image.key", "record.clean.image.key", "record.clean.mask")
VERSION: Final = 3
INDEXES: Final = {
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


def pack_meme(meme: Meme) -> Document:
    """Return the document of `meme`, without its `_id` and revision."""
    return {"flags": flags(meme), "record": meme.model_dump(mode="json", exclude={"id"}, exclude_none=True)}


def read_meme(document: Document) -> Meme:
    """Parse a stored meme. Raises StoreCorrupt."""
    try:
        return Meme.model_validate({"id": document["_id"], **document["record"]})
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"the stored meme {document['_id']!r} cannot be read: {_first_line(error)}") from error


def pack_template(template: Template) -> Document:
    """Return the document of `template`, without its `_id` and revision."""
    return {"record": template.model_dump(mode="json", exclude={"id"}, exclude_none=True)}


def read_template(document: Document) -> Template:
    """Parse a stored template. Raises StoreCorrupt."""
    try:
        return Template.model_validate({"id": document["_id"], **document["record"]})
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"the stored template {document['_id']!r} cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def blob_keys(document: Document) -> Iterator[str]:
    """Yield the keys of the blobs that a meme or template refers to; `document` needs only `BLOB_FIELDS`."""
    for field in BLOB_FIELDS:
        value: Any = document
        for part in field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield value


def banned(database: MongoDatabase, ids: Iterable[str]) -> set[str]:
    """Return those of `ids` (at most `CHUNK`) that a purge removed."""
    return {d["_id"] for d in database["removed"].find({"_id": {"$in": list(set(ids))}}, {"_id": 1})}


def queries(where: Where, chunk: int = CHUNK) -> Iterator[Document]:
    """Yield queries for `where`; several, in order of id, if it names many ids."""
    query: Document = {}
    for field, wanted in (("source", where.source), ("template.id", where.template),
                          ("author", where.author), ("image.key", where.image_key),
                          ("page_url", where.page_url)):  # fmt: skip
        if wanted is not None:
            query[f"record.{field}"] = {"$eq": wanted}
    bits = {"$bitsAllSet": sum(bit for bit, wanted in where.flags.items() if wanted),
            "$bitsAllClear": sum(bit for bit, wanted in where.flags.items() if not wanted)}  # fmt: skip
    if any(bits.values()):
        query["flags"] = {operator: mask for operator, mask in bits.items() if mask}
    if where.template_known is not None:
        query["record.template"] = {"$exists": where.template_known}
    if where.ids is None:
        yield query
        return
    for ids in batched(sorted(set(where.ids)), min(chunk, CHUNK)):
        yield {**query, "_id": {"$in": ids}}


def pages(database: MongoDatabase, where: Where, after: str, batch: int, fields: Document | None) -> Iterator[Document]:
    """Yield documents of memes in order of id, one query a batch."""
    for query in queries(where, batch):
        last = after
        while True:
            paged = {"$and": [query, {"_id": {"$gt": last}}]}
            with database.mapped():
                page = list(database["memes"].find(paged, fields, batch_size=batch).sort("_id", 1).limit(batch))
            if not page:
                break
            yield from page
            last = page[-1]["_id"]
