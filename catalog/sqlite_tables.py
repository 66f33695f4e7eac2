"""The tables of a catalog in SQLite: schema and upgrades, records in rows, conditions in SQL."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError

from memeloom.catalog.documents import Where, batched
from memeloom.catalog.errors import StoreCorrupt
from memeloom.catalog.records import DerivedImage, Meme, Template

Parameters: TypeAlias = tuple[Any, ...]
R = TypeVar("R", Meme, Template)

# Fewer than the 32,766 parameters that SQLite takes in one statement.
CHUNK = 5000
STATES = ("pending", "leased", "done", "failed")
PENDING, LEASED, DONE, FAILED = range(4)
# `made.owner`: kind of record that the wordless picture belongs to.
OF_MEME, OF_TEMPLATE = range(2)

# Version 2: sketches, and the blobs of pictures without words.
_SINCE_2 = """
-- meme: '' for the template's own; template: '' while it is unmatched.
CREATE TABLE sketches (template TEXT NOT NULL, meme TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (template, meme));
CREATE INDEX sketches_meme ON sketches (meme) WHERE meme != '';
-- Blobs that were made; owner: 0 for a meme, 1 for a template.
CREATE TABLE made (owner INTEGER NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (owner, id, key))
  WITHOUT ROWID;
CREATE INDEX made_key ON made (key);
"""

# Version 3: blobs that may be orphaned; settled: looked at, and deleted.
_SINCE_3 = """
CREATE TABLE loose (key TEXT PRIMARY KEY, settled INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX loose_open ON loose (key) WHERE settled = 0;
"""

SCHEMA: Final = f"""
CREATE TABLE memes (
  id TEXT NOT NULL UNIQUE, record TEXT NOT NULL,
  source TEXT NOT NULL, template TEXT, author TEXT, image_key TEXT, flags INTEGER NOT NULL);
CREATE INDEX memes_template ON memes (template, id, source, flags);
CREATE INDEX memes_author ON memes (author, id) WHERE author IS NOT NULL;
CREATE INDEX memes_image ON memes (image_key) WHERE image_key IS NOT NULL;
CREATE TABLE templates (id TEXT PRIMARY KEY, record TEXT NOT NULL, image_key TEXT) WITHOUT ROWID;
CREATE TABLE removed (id TEXT PRIMARY KEY, removed_at REAL NOT NULL) WITHOUT ROWID;
-- ready_at: when the work may be claimed: 0 if new, the end of its lease if held, NULL if it is over.
CREATE TABLE work (
  stage TEXT NOT NULL, meme_id TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0, ready_at REAL DEFAULT 0,
  token TEXT, attempt INTEGER NOT NULL DEFAULT 0, reason TEXT,
  PRIMARY KEY (stage, meme_id)) WITHOUT ROWID;
CREATE INDEX work_ready ON work (stage, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX work_meme ON work (meme_id);
{_SINCE_2}{_SINCE_3}"""
VERSION: Final = 3
# Version n: the statements that make it version n + 1.
UPGRADES: Final = {1: _SINCE_2, 2: _SINCE_3}


def read(kind: type[R], record: str) -> R:
    """Parse a stored meme or template. Raises StoreCorrupt."""
    try:
        return kind.model_validate_json(record)
    except ValidationError as error:
        name, problems = kind.__name__.lower(), error.error_count()
        raise StoreCorrupt(f"a stored {name} cannot be read: {record[:80]}… ({problems} problems)") from error


def keep_made(
    connection: sqlite3.Connection, owner: tuple[int, str], before: DerivedImage | None, now: DerivedImage | None
) -> None:
    """Replace the blobs that the record of `owner` refers to beside its picture."""
    if now == before:
        return
    connection.execute("DELETE FROM made WHERE owner = ? AND id = ?", owner)
    keys = now.keys if now else ()
    connection.executemany("INSERT OR IGNORE INTO made VALUES (?, ?, ?)", [(*owner, key) for key in keys])


def note_orphans(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Note blobs that may be orphaned, inside the caller's transaction."""
    statement = "INSERT INTO loose VALUES (?, 0) ON CONFLICT (key) DO UPDATE SET settled = 0"
    connection.executemany(statement, [(key,) for key in keys])


def conditions(where: Where, chunk: int = CHUNK) -> Iterator[tuple[str, Parameters]]:
    """Yield SQL conditions with their values; several, in order of id, if `where` names many ids."""
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
