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
from collections.abc import Callable, Iterable, Iterator, Sequence

from memeloom.catalog.documents import ALL, Counts, Lease, StoredSketch, Upserted, Where, batched, revise
from memeloom.catalog.errors import LeaseLost
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.sqlite_file import SqliteFile
from memeloom.catalog.sqlite_loose import gone, loose, loosen, references, settle
from memeloom.catalog.sqlite_rows import (
    CHUNK,
    DONE,
    FAILED,
    LEASED,
    PENDING,
    Parameters,
    conditions,
    parse_template,
    read_meme,
    read_template,
    remove,
    stage_counts,
    upsert_chunk,
    write_template,
)
from memeloom.catalog.sqlite_schema import SCHEMA, UPGRADES, VERSION
from memeloom.catalog.sqlite_sketches import drop_sketches, put_sketches, read_sketches

_ENQUEUE_CHUNK = 50_000

# What `Counts.template_records` calls a record.
_STATE = (
    "CASE WHEN json_extract(record, '$.merged_into') IS NOT NULL THEN 'merged'"
    " ELSE coalesce(json_extract(record, '$.state'), 'known') END"
)
_ENQUEUE = "INSERT INTO work (stage, meme_id) SELECT ?, id FROM memes WHERE id = ? ON CONFLICT (stage, meme_id) "
_ANEW = f"DO UPDATE SET state = {PENDING}, ready_at = 0, attempt = 0, reason = NULL WHERE state = {DONE}"
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
        self._file = SqliteFile(path, timeout_seconds, SCHEMA, VERSION, upgrades=UPGRADES)

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

    def records(self, *, batch: int = 1000) -> Iterator[tuple[str, bytes]]:
        """Yield id and JSON of every meme in order of id; one batch in memory, no lock held between batches."""
        return self._pages("id, CAST(record AS BLOB)", ALL, "", batch)

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
            records = connection.execute(f"SELECT {_STATE}, count(*) FROM templates GROUP BY 1")
            strangers = connection.execute("SELECT count(*) FROM sketches WHERE template = ''").fetchone()[0]
            work = connection.execute("SELECT stage, state, reason, count(*) FROM work GROUP BY stage, state, reason")
            memes, images, captions, read = (int(n) for n in flags)
            return Counts(
                memes=memes,
                images=images,
                captions=captions,
                read=read,
                sources=dict(sources.fetchall()),
                templates=dict(templates.fetchall()),
                template_records=dict(records.fetchall()),
                strangers=strangers,
                stages=stage_counts(work.fetchall()),
            )

    def image_keys(self) -> Iterator[str]:
        """The blob keys that memes or templates refer to, each once, in order."""
        last = ""
        query = (
            "SELECT image_key FROM memes WHERE image_key > ?1"
            " UNION SELECT image_key FROM templates WHERE image_key > ?1"
            " UNION SELECT key FROM made WHERE key > ?1 ORDER BY 1 LIMIT ?2"
        )
        while rows := self._file.read(query, (last, CHUNK)):
            yield from (key for (key,) in rows)
            last = rows[-1][0]

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        """Insert or merge by id, all or nothing. Returns how many are new or changed."""
        changed = 0
        new = list(templates)
        with self._file.write() as connection:
            for template in new:
                known = read_template(connection, template.id)
                merged = known.merged(template) if known else template
                if merged is not known:
                    write_template(connection, merged)
                    changed += 1
        return changed

    def revise_template(self, template_id: str, change: Callable[[Template], Template]) -> Template | None:
        """Put what `change` makes of a template in its place, under the write lock."""
        with self._file.write() as connection:
            known = read_template(connection, template_id)
            if known is None:
                return None
            revised = revise(known, change)
            if revised != known:
                write_template(connection, revised)
            return revised

    def templates(self) -> Iterator[Template]:
        """All templates in order of id."""
        query = "SELECT id, record FROM templates WHERE id > ? ORDER BY id LIMIT 500"
        last = ""
        while rows := self._file.read(query, (last,)):
            yield from (parse_template(record) for _, record in rows)
            last = rows[-1][0]

    def put_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        """Insert or replace by key, in transactions of 256."""
        put_sketches(self._file, sketches)

    def sketches(self, template: str | None = None, *, strangers: bool = False) -> Iterator[StoredSketch]:
        """Yield sketches in order of key, 256 in memory."""
        return read_sketches(self._file, "" if strangers else template)

    def drop_sketches(self, keys: Iterable[tuple[str, str]]) -> int:
        """Delete the sketches with these keys. Returns how many there were."""
        return drop_sketches(self._file, keys)

    def enqueue(self, stage: str, where: Where, *, again: bool = False) -> int:
        """Make matching memes pending work of `stage`, in transactions of 50,000."""
        pending, chunk = 0, CHUNK if where.ids is not None else _ENQUEUE_CHUNK
        statement = _ENQUEUE + (_ANEW if again else "DO NOTHING")
        for ids in batched(self._pages("id", where, "", chunk), chunk):
            with self._file.write() as connection:
                pending += connection.executemany(statement, [(stage, meme_id) for (meme_id,) in ids]).rowcount
        return pending

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

    def purge(self, where: Where) -> int:
        """Delete matching memes in transactions of 5,000."""
        deleted = 0
        for condition, values in conditions(where):
            last: str | None = ""
            while last is not None:
                with self._file.write() as connection:
                    query = f"SELECT id FROM memes WHERE {condition} AND id > ? ORDER BY id LIMIT ?"
                    ids = [meme_id for (meme_id,) in connection.execute(query, (*values, last, CHUNK))]
                    remove(connection, ids)
                deleted += len(ids)
                last = ids[-1] if ids else None
        return deleted

    def scrub(self) -> bool:
        """Write the whole file anew, which takes its size twice on the disk for a while.

        `secure_delete` is not enough: it overwrites a record where it stands, not where it stood before its page
        was split.
        """
        return self._file.rewrite()

    def purged(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that a purge removed."""
        found: set[str] = set()
        for chunk in batched(ids, CHUNK):
            marks = ",".join("?" * len(chunk))
            found.update(i for (i,) in self._file.read(f"SELECT id FROM removed WHERE id IN ({marks})", tuple(chunk)))
        return found

    def loosen(self, keys: Iterable[str]) -> None:
        """Note blobs that may have lost what last referred to them."""
        loosen(self._file, keys)

    def loose(self) -> Iterator[list[str]]:
        """Yield what was noted and is not settled, a batch in memory."""
        return loose(self._file)

    def gone(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that were ever noted and that nothing refers to now."""
        return gone(self._file, keys)

    def settle(self, keys: Sequence[str]) -> None:
        """Take keys off `loose`."""
        settle(self._file, keys)

    def references(self, keys: Iterable[str]) -> dict[str, int]:
        """How many memes and templates refer to each blob."""
        return references(self._file, keys)

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
