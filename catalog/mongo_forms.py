"""How memes look as MongoDB documents: packing and reading them, conditions as queries."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from memeloom.catalog.documents import StageCounts, Where, batched, flags
from memeloom.catalog.errors import StoreCorrupt
from memeloom.catalog.mongo_database import Document, MongoDatabase
from memeloom.catalog.records import Meme, Template

CHUNK = 1000
# Where documents of memes and templates name blobs.
BLOB_FIELDS = ("record.image.key", "record.clean.image.key", "record.clean.mask")


def work_id(stage: str, meme_id: str) -> Document:
    """The `_id` of a piece of work."""
    return {"stage": stage, "meme": meme_id}


def later(ttl: float) -> Document:
    """An expression: `ttl` seconds from now by the server's clock."""
    return {"$add": ["$$NOW", round(ttl * 1000)]}


def pack_meme(meme: Meme) -> Document:
    """The document of `meme`, without its `_id` and revision."""
    return {"flags": flags(meme), "record": meme.model_dump(mode="json", exclude={"id"}, exclude_none=True)}


def read_meme(document: Document) -> Meme:
    """The meme in a stored document. Raises StoreCorrupt."""
    try:
        return Meme.model_validate({"id": document["_id"], **document["record"]})
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"the stored meme {document['_id']!r} cannot be read: {_problem(error)}") from error


def pack_template(template: Template) -> Document:
    """The document of `template`, without its `_id` and revision."""
    return {"record": template.model_dump(mode="json", exclude={"id"}, exclude_none=True)}


def read_template(document: Document) -> Template:
    """The template in a stored document. Raises StoreCorrupt."""
    try:
        return Template.model_validate({"id": document["_id"], **document["record"]})
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"the stored template {document['_id']!r} cannot be read: {_problem(error)}") from error


def _problem(error: Exception) -> str:
    return str(error).partition("\n")[0]


def blob_keys(document: Document) -> Iterator[str]:
    """The keys of the blobs that a stored meme or template refers to; `document` may hold only `BLOB_FIELDS`."""
    for field in BLOB_FIELDS:
        value: Any = document
        for part in field.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield value


def banned(database: MongoDatabase, ids: Iterable[str]) -> set[str]:
    """Those of `ids` that a purge removed; at most `CHUNK` of them."""
    return {d["_id"] for d in database["removed"].find({"_id": {"$in": list(set(ids))}}, {"_id": 1})}


def queries(where: Where, chunk: int = CHUNK) -> Iterator[Document]:
    """Yield MongoDB queries; several, in order of id, when ids are given."""
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


def stage_counts(groups: Iterable[Document]) -> dict[str, StageCounts]:
    """Fold groups of (stage, state, reason)."""
    states: dict[str, dict[str, int]] = {}
    reasons: dict[str, dict[str, int]] = {}
    for group in groups:
        stage, state = group["_id"]["stage"], group["_id"]["state"]
        by_state = states.setdefault(stage, {"pending": 0, "leased": 0, "done": 0, "failed": 0})
        by_state[state] += group["n"]
        if state == "failed":
            reasons.setdefault(stage, {})[group["_id"]["reason"]] = group["n"]
    return {stage: StageCounts(**n, reasons=reasons.get(stage, {})) for stage, n in sorted(states.items())}
