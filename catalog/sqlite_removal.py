"""Removal in SQLite: memes that are deleted for good, and the blobs that this may orphan (the table `loose`)."""

# Statements consist of this module's constants; every value is a bound parameter.
# ruff: noqa: S608

import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from memeloom.catalog.documents import Removal, Where, batched
from memeloom.catalog.sqlite_file import SqliteFile
from memeloom.catalog.sqlite_tables import CHUNK, OF_MEME, conditions, note_orphans

_REFERRING = (("memes", "image_key"), ("templates", "image_key"), ("made", "key"))


class SqliteRemoval(Removal):
    """Deletes in transactions of 5,000."""

    _file: SqliteFile

    def purge(self, where: Where) -> int:
        deleted = 0
        for condition, values in conditions(where):
            last: str | None = ""
            while last is not None:
                with self._file.write() as connection:
                    query = f"SELECT id FROM memes WHERE {condition} AND id > ? ORDER BY id LIMIT ?"
                    ids = [meme_id for (meme_id,) in connection.execute(query, (*values, last, CHUNK))]
                    _remove(connection, ids)
                deleted += len(ids)
                last = ids[-1] if ids else None
        return deleted

    def scrub(self) -> bool:
        """Rewrite the whole file (VACUUM), which temporarily takes twice its size.

        `secure_delete` overwrites a record where it is, not where it was before its page was split.
        """
        return self._file.rewrite()

    def purged(self, ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for chunk in batched(ids, CHUNK):
            found.update(
                i for (i,) in self._file.read(f"SELECT id FROM removed WHERE id IN {_marks(chunk)}", (*chunk,))
            )
        return found

    def note_orphans(self, keys: Iterable[str]) -> None:
        for batch in batched(keys, CHUNK):
            with self._file.write() as connection:
                note_orphans(connection, batch)

    def noted_orphans(self) -> Iterator[list[str]]:
        query = "SELECT key FROM loose WHERE settled = 0 AND key > ? ORDER BY key LIMIT ?"
        return batched((key for (key,) in self._file.pages(query, n=CHUNK)), CHUNK)

    def orphans(self, keys: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for batch in batched(keys, CHUNK):
            with self._file.snapshot() as connection:
                found |= _orphans(connection, batch)
        return found

    def settle_orphans(self, keys: Sequence[str]) -> None:
        for batch in batched(keys, CHUNK):
            with self._file.write() as connection:
                gone = _orphans(connection, batch)
                connection.executemany("UPDATE loose SET settled = 1 WHERE key = ?", [(key,) for key in gone])
                connection.executemany("DELETE FROM loose WHERE key = ?", [(key,) for key in batch if key not in gone])

    def references(self, keys: Iterable[str]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for batch in batched(keys, CHUNK):
            with self._file.snapshot() as connection:
                found.update(_references(connection, batch))
        return dict(found)


def _remove(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    now = time.time()
    keys = set[str]()
    for query in ("SELECT image_key FROM memes WHERE id = ? AND image_key IS NOT NULL",
                  f"SELECT key FROM made WHERE owner = {OF_MEME} AND id = ?"):  # fmt: skip
        for meme_id in ids:
            keys.update(key for (key,) in connection.execute(query, (meme_id,)))
    note_orphans(connection, keys)
    for statement in ("DELETE FROM memes WHERE id = ?", "DELETE FROM work WHERE meme_id = ?",
                      "DELETE FROM sketches WHERE meme = ? AND meme != ''",
                      f"DELETE FROM made WHERE owner = {OF_MEME} AND id = ?"):  # fmt: skip
        connection.executemany(statement, [(meme_id,) for meme_id in ids])
    connection.executemany("INSERT OR IGNORE INTO removed VALUES (?, ?)", [(i, now) for i in ids])


def _orphans(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    noted = {key for (key,) in connection.execute(f"SELECT key FROM loose WHERE key IN {_marks(keys)}", keys)}
    return noted - _references(connection, keys).keys()


def _references(connection: sqlite3.Connection, keys: Sequence[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for table, column in _REFERRING:
        query = f"SELECT {column}, count(*) FROM {table} WHERE {column} IN {_marks(keys)} GROUP BY {column}"
        found.update(dict(connection.execute(query, keys).fetchall()))
    return found


def _marks(values: Sequence[str]) -> str:
    return f"({','.join('?' * len(values))})"
