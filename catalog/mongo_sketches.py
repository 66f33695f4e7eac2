"""Sketches in MongoDB: a document each, `_id` being its key; no more than a few hundred are in memory."""

from collections.abc import Iterable, Iterator

from bson import Binary, MaxKey
from pymongo import ReplaceOne
from pymongo.errors import BulkWriteError

from memeloom.catalog.documents import StoredSketch, batched
from memeloom.catalog.mongo_database import DUPLICATE_KEY, Document, MongoDatabase
from memeloom.catalog.mongo_forms import CHUNK, banned

# At 8 KB a sketch these are 2 MB.
_SKETCHES = 256


def put_sketches(database: MongoDatabase, sketches: Iterable[StoredSketch]) -> None:
    """Insert or replace, each sketch by itself; those of purged memes are passed over."""
    for batch in batched(sketches, _SKETCHES):
        with database.mapped():
            gone = banned(database, [sketch.meme for sketch in batch])
            # Of one key the later one wins, and unordered writes have no later one.
            wanted = {sketch.key: sketch.data for sketch in batch if sketch.meme not in gone}
            _write(database, wanted)
            # A purge remembers before it deletes: what it remembered while we wrote is ours to take back.
            late = banned(database, [meme for _, meme in wanted])
            if late:
                database["sketches"].delete_many({"_id.meme": {"$in": sorted(late)}})


def read_sketches(database: MongoDatabase, template: str | None) -> Iterator[StoredSketch]:
    """Yield the sketches of `template` ("" for the strangers'), or of all templates (None), in order of key."""
    # A text and NUL is the next one in order. Strangers come before all templates.
    first = _key("\0", "") if template is None else _key(template, "")
    last = {"template": MaxKey()} if template is None else {"template": template, "meme": MaxKey()}
    while True:
        with database.mapped():
            query = {"_id": {"$gte": first, "$lt": last}}
            found = database["sketches"].find(query, batch_size=_SKETCHES).sort("_id", 1).limit(_SKETCHES)
            page = [StoredSketch(d["_id"]["template"], d["_id"]["meme"], bytes(d["data"])) for d in found]
        if not page:
            return
        yield from page
        first = _key(page[-1].template, page[-1].meme + "\0")


def count_strangers(database: MongoDatabase) -> int:
    """How many sketches are no template's."""
    return database["sketches"].count_documents({"_id": {"$lt": _key("\0", "")}})


def drop_sketches(database: MongoDatabase, keys: Iterable[tuple[str, str]]) -> int:
    """Delete by key. Returns how many there were."""
    dropped = 0
    for batch in batched(keys, CHUNK):
        with database.mapped():
            query = {"_id": {"$in": [_key(*key) for key in batch]}}
            dropped += database["sketches"].delete_many(query).deleted_count
    return dropped


def _write(database: MongoDatabase, sketches: dict[tuple[str, str], bytes]) -> None:
    requests = [
        ReplaceOne[Document]({"_id": _key(*key)}, {"data": Binary(data)}, upsert=True) for key, data in sketches.items()
    ]
    if not requests:
        return
    try:
        database["sketches"].bulk_write(requests, ordered=False)
    except BulkWriteError as error:
        problems = [*error.details["writeErrors"], *error.details["writeConcernErrors"]]
        # Somebody put the same sketch at the same moment: theirs stays.
        if any(problem["code"] != DUPLICATE_KEY for problem in problems):
            raise


def _key(template: str, meme: str) -> Document:
    return {"template": template, "meme": meme}
