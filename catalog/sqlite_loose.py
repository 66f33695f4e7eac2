"""Blobs that lost what referred to them, in SQLite's tables: noted with the purge, settled when they are deleted."""

# Statements are put together from this module's own words; every value is a bound parameter.
# ruff: noqa: S608

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from memeloom.catalog.documents import batched
from memeloom.catalog.sqlite_file import SqliteFile
from memeloom.catalog.sqlite_rows import CHUNK, note

_REFERRING = (("memes", "image_key"), ("templates", "image_key"), ("made", "key"))


def loosen(file: SqliteFile, keys: Iterable[str]) -> None:
    """Note blobs, a transaction a batch."""
    for batch in batched(keys, CHUNK):
        with file.write() as connection:
            note(connection, batch)


def loose(file: SqliteFile) -> Iterator[list[str]]:
    """Yield what is not settled, in order, a batch a read."""
    last = ""
    query = "SELECT key FROM loose WHERE settled = 0 AND key > ? ORDER BY key LIMIT ?"
    while rows := file.read(query, (last, CHUNK)):
        yield [key for (key,) in rows]
        last = rows[-1][0]


def gone(file: SqliteFile, keys: Iterable[str]) -> set[str]:
    """Those of `keys` that were noted and that nothing refers to, each batch as of one moment."""
    found: set[str] = set()
    for batch in batched(keys, CHUNK):
        with file.snapshot() as connection:
            found |= _gone(connection, batch)
    return found


def settle(file: SqliteFile, keys: Sequence[str]) -> None:
    """Mark what is gone, forget what is needed."""
    for batch in batched(keys, CHUNK):
        with file.write() as connection:
            over = _gone(connection, batch)
            connection.executemany("UPDATE loose SET settled = 1 WHERE key = ?", [(key,) for key in over])
            connection.executemany("DELETE FROM loose WHERE key = ?", [(key,) for key in batch if key not in over])


def references(file: SqliteFile, keys: Iterable[str]) -> dict[str, int]:
    """How many records refer to each of `keys`, those of no record left out."""
    found: Counter[str] = Counter()
    for batch in batched(keys, CHUNK):
        with file.snapshot() as connection:
            found.update(_references(connection, batch))
    return dict(found)


def _gone(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    marks = ",".join("?" * len(keys))
    noted = {key for (key,) in connection.execute(f"SELECT key FROM loose WHERE key IN ({marks})", keys)}
    return noted - _references(connection, keys).keys()


def _references(connection: sqlite3.Connection, keys: Sequence[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    marks = ",".join("?" * len(keys))
    for table, column in _REFERRING:
        query = f"SELECT {column}, count(*) FROM {table} WHERE {column} IN ({marks}) GROUP BY {column}"
        found.update(dict(connection.execute(query, keys).fetchall()))
    return found
