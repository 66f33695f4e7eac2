"""Sketches in SQLite's tables: some kilobytes each, so no more than a few hundred are in memory."""

from collections.abc import Iterable, Iterator

from memeloom.catalog.documents import StoredSketch, batched
from memeloom.catalog.sqlite_file import SqliteFile

# At 8 KB a sketch these are 2 MB.
_SKETCHES = 256
_KEYS = 5000

_PUT = """
INSERT INTO sketches (template, meme, data)
  SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM removed WHERE id = ?2)
ON CONFLICT (template, meme) DO UPDATE SET data = excluded.data
"""
_OF_ONE = "SELECT template, meme, data FROM sketches WHERE template = ? AND meme >= ? ORDER BY meme LIMIT ?"
_OF_ALL = "SELECT template, meme, data FROM sketches WHERE (template, meme) >= (?, ?) ORDER BY template, meme LIMIT ?"


def put_sketches(file: SqliteFile, sketches: Iterable[StoredSketch]) -> None:
    """Insert or replace, a transaction a batch; those of purged memes are passed over."""
    for batch in batched(sketches, _SKETCHES):
        with file.write() as connection:
            connection.executemany(_PUT, [(*sketch.key, sketch.data) for sketch in batch])


def read_sketches(file: SqliteFile, template: str | None) -> Iterator[StoredSketch]:
    """Yield the sketches of `template` ("" for the strangers'), or of all templates (None), in order of key."""
    # A text and NUL is the next one in order. Strangers come before all templates.
    first = ("\0", "") if template is None else (template, "")
    query = _OF_ALL if template is None else _OF_ONE
    while rows := file.read(query, (*first, _SKETCHES)):
        yield from (StoredSketch(*row) for row in rows)
        first = (rows[-1][0], rows[-1][1] + "\0")


def drop_sketches(file: SqliteFile, keys: Iterable[tuple[str, str]]) -> int:
    """Delete by key, a transaction a batch. Returns how many there were."""
    dropped = 0
    for batch in batched(keys, _KEYS):
        with file.write() as connection:
            statement = "DELETE FROM sketches WHERE template = ? AND meme = ?"
            dropped += connection.executemany(statement, batch).rowcount
    return dropped
