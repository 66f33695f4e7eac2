"""Documents in one SQLite file: the embedded default.

Records are kept as JSON beside the few columns that conditions ask for. The file runs in WAL mode
with `synchronous=FULL`: a call that returned survives kill -9 and a power cut. Every write takes the
write lock first (`BEGIN IMMEDIATE`), so what it reads is what it changes.
"""

# Statements are put together from this module's own words; every value is a bound parameter.
# ruff: noqa: S608

import itertools
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence

from catalog.documents import ALL, Counts, Lease, Upserted, Where, batched
from catalog.errors import LeaseLost
from catalog.records import Meme, Template
from catalog.sqlite_file import SqliteFile
from catalog.sqlite_rows import (
    CHUNK,
    DONE,
    FAILED,
    LEASED,
    PENDING,
    Parameters,
    conditions,
    read_meme,
    remove,
    stage_counts,
    upsert_chunk,
)

_ENQUEUE_CHUNK = 50_000

_SCHEMA = """
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
"""
_SCHEMA_VERSION = 1

_CLAIM = "UPDATE work SET state = 1, ready_at = ?, token = ?, attempt = ? WHERE stage = ? AND meme_id = ?"
_ABANDON = (
    "UPDATE work SET state = 3, ready_at = NULL, token = NULL, reason = 'abandoned' WHERE stage = ? AND meme_id = ?"
)
_HELD = "WHERE stage = ? AND meme_id = ? AND token = ? AND state = 1 AND ready_at > ?"


class SqliteDocuments:
    """A `DocumentStore` in the SQLite file `path`, created if it is new.

    timeout_seconds: how long a call waits for another writer before it gives up.
    One `upsert` call is one transaction; it holds the write lock while it consumes its iterable.
    Fork- and pickle-safe: every thread of every process gets a connection of its own.

    Raises:
        StoreError: `path` cannot be opened, is not a database, not memeloom's, or of a newer version.
    """

    def __init__(self, path: str, timeout_seconds: float) -> None:
        self._file = SqliteFile(path, timeout_seconds, _SCHEMA, _SCHEMA_VERSION)

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        """Insert or merge by id, all or nothing; durable when it returns."""
        total = Upserted()
        source = iter(memes)
        chunk = list(itertools.islice(source, CHUNK))
        if not chunk:
            return total
        with self._file.write() as connection:
            while chunk:
                total += upsert_chunk(connection, chunk)
                chunk = list(itertools.islice(source, CHUNK))
        return total

    def get(self, meme_id: str) -> Meme | None:
        """The meme with that id."""
        rows = self._file.read("SELECT record FROM memes WHERE id = ?", (meme_id,))
        return read_meme(rows[0][0]) if rows else None

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        """Yield matching memes in order of id; one batch in memory, no lock held between batches."""
        for _, record in self._pages("id, record", where, after, batch):
            yield read_meme(record)

    def count(self, where: Where = ALL) -> int:
        """How many memes match."""
        total = 0
        for condition, values in conditions(where):
            total += self._file.read(f"SELECT count(*) FROM memes WHERE {condition}", values)[0][0]
        return total

    def counts(self) -> Counts:
        """What the store holds, as of one moment."""
        with self._file.snapshot() as connection:
            flags = connection.execute(
                "SELECT count(*), total(flags & 1 > 0), total(flags & 2 > 0), total(flags & 4 > 0) FROM memes"
            ).fetchone()
            sources = connection.execute("SELECT source, count(*) FROM memes GROUP BY source ORDER BY source")
            templates = connection.execute(
                "SELECT template, count(*) AS n FROM memes WHERE template IS NOT NULL GROUP BY template"
                " ORDER BY n DESC, template"
            )
            work = connection.execute("SELECT stage, state, reason, count(*) FROM work GROUP BY stage, state, reason")
            memes, images, captions, read = (int(n) for n in flags)
            return Counts(
                memes=memes,
                images=images,
                captions=captions,
                read=read,
                sources=dict(sources.fetchall()),
                templates=dict(templates.fetchall()),
                stages=stage_counts(work.fetchall()),
            )

    def image_keys(self) -> Iterator[str]:
        """The blob keys that memes or templates refer to, each once, in order."""
        last = ""
        while rows := self._file.read(
            "SELECT image_key FROM memes WHERE image_key > ?1 UNION"
            " SELECT image_key FROM templates WHERE image_key > ?1 ORDER BY 1 LIMIT ?2", (last, CHUNK),
        ):  # fmt: skip
            yield from (key for (key,) in rows)
            last = rows[-1][0]

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Insert or replace by id, keeping a known image. Returns how many changed."""
        changed = 0
        new = list(templates)
        with self._file.write() as connection:
            for template in new:
                found = connection.execute("SELECT record FROM templates WHERE id = ?", (template.id,)).fetchone()
                known = Template.model_validate_json(found[0]) if found else None
                if known and known.image and not template.image:
                    template = template.model_copy(update={"image": known.image})  # noqa: PLW2901
                if template != known:
                    key = template.image.key if template.image else None
                    record = template.model_dump_json(exclude_none=True)
                    connection.execute("REPLACE INTO templates VALUES (?, ?, ?)", (template.id, record, key))
                    changed += 1
        return changed

    def templates(self) -> Iterator[Template]:
        """All templates in order of id."""
        query = "SELECT id, record FROM templates WHERE id > ? ORDER BY id LIMIT 500"
        last = ""
        while rows := self._file.read(query, (last,)):
            for _, record in rows:
                yield Template.model_validate_json(record)
            last = rows[-1][0]

    def enqueue(self, stage: str, where: Where) -> int:
        """Make matching memes pending work of `stage`, in transactions of 50,000."""
        new, chunk = 0, CHUNK if where.ids is not None else _ENQUEUE_CHUNK
        for ids in batched(self._pages("id", where, "", chunk), chunk):
            with self._file.write() as connection:
                new += connection.executemany(
                    "INSERT OR IGNORE INTO work (stage, meme_id)"
                    " SELECT ?, id FROM memes WHERE id = ?", [(stage, meme_id) for (meme_id,) in ids],
                ).rowcount  # fmt: skip
        return new

    def lease(self, stage: str, n: int, ttl: float, attempts: int) -> list[Lease]:
        """Claim up to `n` pieces of work for `ttl` seconds."""
        token = secrets.token_hex(8)
        leases: list[Lease] = []
        with self._file.write() as connection:
            while len(leases) < n:
                now = time.time()
                rows = connection.execute(
                    "SELECT meme_id, attempt, state FROM work WHERE stage = ? AND ready_at <= ?"
                    " ORDER BY ready_at LIMIT ?", (stage, now, min(n - len(leases), CHUNK)),
                ).fetchall()  # fmt: skip
                if not rows:
                    break
                spent = [(stage, i) for i, attempt, state in rows if state == LEASED and attempt >= attempts]
                connection.executemany(_ABANDON, spent)
                gone = {meme_id for _, meme_id in spent}
                new = [Lease(stage, i, token, attempt + 1) for i, attempt, _ in rows if i not in gone]
                connection.executemany(_CLAIM, [(now + ttl, token, x.attempt, stage, x.meme_id) for x in new])
                leases += new
        return leases

    def extend(self, lease: Lease, ttl: float) -> None:
        """Hold on for another `ttl` seconds from now. Raises LeaseLost."""
        self._update_held(lease, "ready_at = ?", (time.time() + ttl,))

    def ack(self, leases: Sequence[Lease]) -> int:
        """The work is done. Returns how many leases were still held."""
        if not leases:
            return 0
        with self._file.write() as connection:
            now = time.time()
            return connection.executemany(
                f"UPDATE work SET state = {DONE}, ready_at = NULL, token = NULL {_HELD}",
                [(x.stage, x.meme_id, x.token, now) for x in leases],
            ).rowcount

    def fail(self, lease: Lease, reason: str, attempts: int) -> None:
        """Back to pending, behind what was never tried, or failed after the last attempt. Raises LeaseLost."""
        if lease.attempt >= attempts:
            self._update_held(lease, f"state = {FAILED}, ready_at = NULL, token = NULL, reason = ?", (reason,))
        else:
            changes = f"state = {PENDING}, ready_at = ?, token = NULL, reason = ?"
            self._update_held(lease, changes, (time.time(), reason))

    def release(self, leases: Sequence[Lease]) -> int:
        """Pending again as before; what had failed once stays behind what was never tried."""
        if not leases:
            return 0
        with self._file.write() as connection:
            now = time.time()
            return connection.executemany(
                f"UPDATE work SET state = {PENDING}, token = NULL, attempt = attempt - 1,"
                f" ready_at = CASE attempt WHEN 1 THEN 0 ELSE ? END {_HELD}",
                [(now, x.stage, x.meme_id, x.token, now) for x in leases],
            ).rowcount

    def failed(self, stage: str) -> Iterator[tuple[str, str]]:
        """Yield id and reason of what failed for good, in order of id."""
        query = f"SELECT meme_id, reason FROM work WHERE stage = ? AND state = {FAILED} AND meme_id > ?" \
                " ORDER BY meme_id LIMIT ?"  # fmt: skip
        last = ""
        while rows := self._file.read(query, (stage, last, CHUNK)):
            yield from ((meme_id, reason) for meme_id, reason in rows)
            last = rows[-1][0]

    def retry(self, stage: str, reason: str | None = None) -> int:
        """Make failed work pending again, its attempts counted anew. Returns how many."""
        with self._file.write() as connection:
            return connection.execute(
                f"UPDATE work SET state = {PENDING}, ready_at = 0, attempt = 0, reason = NULL"
                f" WHERE stage = ?1 AND state = {FAILED} AND (?2 IS NULL OR reason = ?2)", (stage, reason),
            ).rowcount  # fmt: skip

    def purge(self, where: Where) -> tuple[int, list[str]]:
        """Delete matching memes in transactions of 5,000; each of them is gone for good."""
        deleted, keys = 0, set[str]()
        for condition, values in conditions(where):
            last: str | None = ""
            while last is not None:
                with self._file.write() as connection:
                    rows = connection.execute(
                        f"SELECT id, image_key FROM memes WHERE {condition} AND id > ? ORDER BY id LIMIT ?",
                        (*values, last, CHUNK),
                    ).fetchall()
                    remove(connection, [meme_id for meme_id, _ in rows])
                deleted += len(rows)
                keys.update(key for _, key in rows if key is not None)
                last = rows[-1][0] if rows else None
        used = "SELECT EXISTS (SELECT 1 FROM memes WHERE image_key = ?1)" \
               " OR EXISTS (SELECT 1 FROM templates WHERE image_key = ?1)"  # fmt: skip
        return deleted, sorted(key for key in keys if not self._file.read(used, (key,))[0][0])

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed."""
        found: set[str] = set()
        for chunk in batched(ids, CHUNK):
            marks = ",".join("?" * len(chunk))
            found.update(i for (i,) in self._file.read(f"SELECT id FROM removed WHERE id IN ({marks})", tuple(chunk)))
        return found

    def close(self) -> None:
        """Close this process's connections."""
        self._file.close()

    def _pages(self, columns: str, where: Where, after: str, batch: int) -> Iterator[Parameters]:
        """Yield rows of `columns`, the first of which is the id, in order of id, one page a read."""
        for condition, values in conditions(where, batch):
            last = after
            query = f"SELECT {columns} FROM memes WHERE {condition} AND id > ? ORDER BY id LIMIT ?"
            while rows := self._file.read(query, (*values, last, batch)):
                yield from rows
                last = rows[-1][0]

    def _update_held(self, lease: Lease, changes: str, values: Parameters) -> None:
        with self._file.write() as connection:
            held = (lease.stage, lease.meme_id, lease.token, time.time())
            if not connection.execute(f"UPDATE work SET {changes} {_HELD}", (*values, *held)).rowcount:
                raise LeaseLost(f"{lease.stage}: the lease of {lease.meme_id} ran out; its work is someone else's now")
