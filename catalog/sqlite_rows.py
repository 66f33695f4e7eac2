"""How memes are laid out in SQLite's tables: columns beside a record, conditions over them, merging a batch."""

# Statements are put together from this module's own words; every value is a bound parameter.
# ruff: noqa: S608

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError

from memeloom.catalog.documents import StageCounts, Upserted, Where, batched, flags
from memeloom.catalog.errors import StoreCorrupt
from memeloom.catalog.records import Made, Meme, Template

Parameters: TypeAlias = tuple[Any, ...]

# Fewer than the 32,766 parameters that SQLite takes in one statement.
CHUNK = 5000
PENDING, LEASED, DONE, FAILED = range(4)
# Whose made pictures: `made.owner`.
_MEME, _TEMPLATE = range(2)

_INSERT = """
INSERT INTO memes (id, record, source, template, author, image_key, flags) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, source = excluded.source, template = excluded.template,
  author = excluded.author, image_key = excluded.image_key, flags = excluded.flags
"""


def upsert_chunk(connection: sqlite3.Connection, memes: Sequence[Meme]) -> Upserted:
    """Insert or merge at most `CHUNK` memes inside the caller's transaction."""
    ids = list({meme.id for meme in memes})
    marks = ",".join("?" * len(ids))
    stored = dict(connection.execute(f"SELECT id, record FROM memes WHERE id IN ({marks})", ids).fetchall())
    banned = {i for (i,) in connection.execute(f"SELECT id FROM removed WHERE id IN ({marks})", ids)}
    known = {meme_id: read_meme(record) for meme_id, record in stored.items()}
    current = known.copy()
    removed, left = 0, dict[str, None]()
    for meme in memes:
        if meme.id in banned:
            removed += 1
            left.update(dict.fromkeys(meme.blobs))
            continue
        there = current.get(meme.id)
        current[meme.id] = meme if there is None else there.merged(meme)
    changed = [meme for meme_id, meme in current.items() if meme is not known.get(meme_id)]
    connection.executemany(_INSERT, map(_row, changed))
    note(connection, left)
    for meme in changed:
        before = known.get(meme.id)
        _keep_made(connection, (_MEME, meme.id), before.clean if before else None, meme.clean)
    inserted = len(current) - len(known)
    return Upserted(inserted, len(changed) - inserted, len(memes) - removed - len(changed), removed)


def _row(meme: Meme) -> Parameters:
    image, template = meme.image, meme.template
    return (
        meme.id, meme.model_dump_json(exclude_none=True), meme.source, template.id if template else None,
        meme.author, image.key if image else None, flags(meme),
    )  # fmt: skip


def read_meme(record: str) -> Meme:
    """The meme in a stored `record`. Raises StoreCorrupt."""
    try:
        return Meme.model_validate_json(record)
    except ValidationError as error:
        raise StoreCorrupt(f"a stored meme cannot be read: {record[:80]}… ({error.error_count()} problems)") from error


def read_template(connection: sqlite3.Connection, template_id: str) -> Template | None:
    """The template with that id. Raises StoreCorrupt."""
    found = connection.execute("SELECT record FROM templates WHERE id = ?", (template_id,)).fetchone()
    return parse_template(found[0]) if found else None


def parse_template(record: str) -> Template:
    """The template in a stored `record`. Raises StoreCorrupt."""
    try:
        return Template.model_validate_json(record)
    except ValidationError as error:
        problems = error.error_count()
        raise StoreCorrupt(f"a stored template cannot be read: {record[:80]}… ({problems} problems)") from error


def write_template(connection: sqlite3.Connection, template: Template) -> None:
    """Insert or replace a template inside the caller's transaction."""
    before = read_template(connection, template.id)
    record = template.model_dump_json(exclude_none=True)
    key = template.image.key if template.image else None
    connection.execute("REPLACE INTO templates VALUES (?, ?, ?)", (template.id, record, key))
    _keep_made(connection, (_TEMPLATE, template.id), before.clean if before else None, template.clean)


def _keep_made(connection: sqlite3.Connection, owner: tuple[int, str], before: Made | None, now: Made | None) -> None:
    """Note which blobs the record of `owner` refers to beside its picture."""
    if now == before:
        return
    connection.execute("DELETE FROM made WHERE owner = ? AND id = ?", owner)
    keys = now.keys if now else ()
    connection.executemany("INSERT OR IGNORE INTO made VALUES (?, ?, ?)", [(*owner, key) for key in keys])


def remove(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Delete memes, their work and sketches, and remember that they are gone, inside the caller's transaction.

    The blobs that they referred to are noted.
    """
    now = time.time()
    keys = set[str]()
    for query in ("SELECT image_key FROM memes WHERE id = ? AND image_key IS NOT NULL",
                  f"SELECT key FROM made WHERE owner = {_MEME} AND id = ?"):  # fmt: skip
        for meme_id in ids:
            keys.update(key for (key,) in connection.execute(query, (meme_id,)))
    note(connection, keys)
    for statement in ("DELETE FROM memes WHERE id = ?", "DELETE FROM work WHERE meme_id = ?",
                      "DELETE FROM sketches WHERE meme = ? AND meme != ''",
                      f"DELETE FROM made WHERE owner = {_MEME} AND id = ?"):  # fmt: skip
        connection.executemany(statement, [(meme_id,) for meme_id in ids])
    connection.executemany("INSERT OR IGNORE INTO removed VALUES (?, ?)", [(i, now) for i in ids])


def note(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Note blobs that may have lost what referred to them, inside the caller's transaction."""
    statement = "INSERT INTO loose VALUES (?, 0) ON CONFLICT (key) DO UPDATE SET settled = 0"
    connection.executemany(statement, [(key,) for key in keys])


def conditions(where: Where, chunk: int = CHUNK) -> Iterator[tuple[str, Parameters]]:
    """Yield SQL conditions and their values; several, in order of id, when ids are given."""
    terms, values = ["1"], list[Any]()
    for column, wanted in (("source", where.source), ("template", where.template),
                           ("author", where.author), ("image_key", where.image_key),
                           ("json_extract(record, '$.page_url')", where.page_url)):  # fmt: skip
        if wanted is not None:
            terms.append(f"{column} = ?")
            values.append(wanted)
    for flag, has in where.flags.items():
        terms.append(f"flags & {flag} {'>' if has else '='} 0")
    if where.template_known is not None:
        terms.append(f"template IS {'NOT NULL' if where.template_known else 'NULL'}")
    condition = " AND ".join(terms)
    if where.ids is None:
        yield condition, tuple(values)
        return
    for ids in batched(sorted(set(where.ids)), min(chunk, CHUNK)):
        yield f"{condition} AND id IN ({','.join('?' * len(ids))})", (*values, *ids)


def stage_counts(rows: Iterable[Parameters]) -> dict[str, StageCounts]:
    """Fold rows of (stage, state, reason, n)."""
    states: dict[str, dict[int, int]] = {}
    reasons: dict[str, dict[str, int]] = {}
    for stage, state, reason, n in rows:
        by_state = states.setdefault(stage, dict.fromkeys(range(4), 0))
        by_state[state] += n
        if state == FAILED:
            reasons.setdefault(stage, {})[reason] = n
    return {
        stage: StageCounts(n[PENDING], n[LEASED], n[DONE], n[FAILED], reasons.get(stage, {}))
        for stage, n in sorted(states.items())
    }
