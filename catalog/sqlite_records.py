"""Memes, templates and sketches in SQLite."""

# Statements consist of this module's constants; every value is a bound parameter.
# ruff: noqa: S608

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from memeloom.catalog.documents import (
    ALL,
    HAS_CAPTION,
    HAS_IMAGE,
    IS_READ,
    Counts,
    Memes,
    Sketches,
    StoredSketch,
    Templates,
    Upserted,
    Where,
    batched,
    flags,
    revise,
    stage_counts,
)
from memeloom.catalog.records import Meme, Template
from memeloom.catalog.sqlite_file import SqliteFile
from memeloom.catalog.sqlite_tables import (
    CHUNK,
    OF_MEME,
    OF_TEMPLATE,
    STATES,
    Parameters,
    conditions,
    keep_made,
    note_orphans,
    read,
)

_INSERT = """
INSERT INTO memes (id, record, source, template, author, image_key, flags) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, source = excluded.source, template = excluded.template,
  author = excluded.author, image_key = excluded.image_key, flags = excluded.flags
"""
_STATE = (
    "CASE WHEN json_extract(record, '$.merged_into') IS NOT NULL THEN 'merged'"
    " ELSE coalesce(json_extract(record, '$.state'), 'known') END"
)
# At 8 KB a sketch these are 2 MB.
_SKETCHES = 256
_PUT_SKETCH = """
INSERT INTO sketches (template, meme, data)
  SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM removed WHERE id = ?2)
ON CONFLICT (template, meme) DO UPDATE SET data = excluded.data
"""
_OF_ONE = "SELECT template, meme, data FROM sketches WHERE template = ? AND meme >= ? ORDER BY meme LIMIT ?"
_OF_ALL = "SELECT template, meme, data FROM sketches WHERE (template, meme) >= (?, ?) ORDER BY template, meme LIMIT ?"


class SqliteMemes(Memes):
    """The memes. One `upsert` is one transaction; it holds the write lock while it consumes its iterable."""

    _file: SqliteFile

    def upsert(self, memes: Iterable[Meme]) -> Upserted:
        total, chunks = Upserted(), batched(memes, CHUNK)
        if first := next(chunks, None):
            with self._file.write() as connection:
                for chunk in itertools.chain([first], chunks):
                    total += _upsert_chunk(connection, chunk)
        return total

    def get(self, meme_id: str) -> Meme | None:
        rows = self._file.read("SELECT record FROM memes WHERE id = ?", (meme_id,))
        return read(Meme, rows[0][0]) if rows else None

    def scan(self, where: Where = ALL, *, after: str = "", batch: int = 1000) -> Iterator[Meme]:
        for _, record in pages(self._file, "id, record", where, after, batch):
            yield read(Meme, record)

    def records(self, *, batch: int = 1000) -> Iterator[tuple[str, bytes]]:
        return pages(self._file, "id, CAST(record AS BLOB)", ALL, "", batch)

    def count(self, where: Where = ALL) -> int:
        return sum(
            self._file.read(f"SELECT count(*) FROM memes WHERE {condition}", values)[0][0]
            for condition, values in conditions(where)
        )

    def counts(self) -> Counts:
        with self._file.snapshot() as connection:
            bits = (f"total(flags & {bit} > 0)" for bit in (HAS_IMAGE, HAS_CAPTION, IS_READ))
            numbers = connection.execute(f"SELECT count(*), {', '.join(bits)} FROM memes").fetchone()
            sources = connection.execute("SELECT source, count(*) FROM memes GROUP BY source ORDER BY source")
            templates = connection.execute(
                "SELECT template, count(*) AS n FROM memes WHERE template IS NOT NULL GROUP BY template"
                " ORDER BY n DESC, template"
            )
            states = connection.execute(f"SELECT {_STATE}, count(*) FROM templates GROUP BY 1")
            unmatched = connection.execute("SELECT count(*) FROM sketches WHERE template = ''").fetchone()[0]
            work = connection.execute("SELECT stage, state, reason, count(*) FROM work GROUP BY stage, state, reason")
            memes, images, captions, read = (int(n) for n in numbers)
            return Counts(
                memes=memes,
                images=images,
                captions=captions,
                read=read,
                sources=dict(sources.fetchall()),
                templates=dict(templates.fetchall()),
                template_records=dict(states.fetchall()),
                unmatched=unmatched,
                stages=stage_counts((stage, STATES[state], reason, n) for stage, state, reason, n in work),
            )

    def image_keys(self) -> Iterator[str]:
        query = (
            "SELECT image_key FROM memes WHERE image_key > ?1"
            " UNION SELECT image_key FROM templates WHERE image_key > ?1"
            " UNION SELECT key FROM made WHERE key > ?1 ORDER BY 1 LIMIT ?2"
        )
        return (key for (key,) in self._file.pages(query, n=CHUNK))


class SqliteTemplates(Templates):
    """The templates; each call that writes is one transaction."""

    _file: SqliteFile

    def upsert_templates(self, templates: Iterable[Template]) -> int:
        changed = 0
        new = list(templates)
        with self._file.write() as connection:
            for template in new:
                known = _get_template(connection, template.id)
                merged = known.merged(template) if known else template
                if merged is not known:
                    _put_template(connection, known, merged)
                    changed += 1
        return changed

    def revise_template(self, template_id: str, change: Callable[[Template], Template]) -> Template | None:
        with self._file.write() as connection:
            known = _get_template(connection, template_id)
            if known is None:
                return None
            revised = revise(known, change)
            if revised != known:
                _put_template(connection, known, revised)
            return revised

    def get_template(self, template_id: str) -> Template | None:
        rows = self._file.read("SELECT record FROM templates WHERE id = ?", (template_id,))
        return read(Template, rows[0][0]) if rows else None

    def templates(self) -> Iterator[Template]:
        query = "SELECT id, record FROM templates WHERE id > ? ORDER BY id LIMIT ?"
        return (read(Template, record) for _, record in self._file.pages(query, n=500))


class SqliteSketches(Sketches):
    """The sketches, in transactions and reads of 256."""

    _file: SqliteFile

    def put_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        for batch in batched(sketches, _SKETCHES):
            with self._file.write() as connection:
                connection.executemany(_PUT_SKETCH, [(*sketch.key, sketch.data) for sketch in batch])

    def sketches(self, template: str | None = None, *, unmatched: bool = False) -> Iterator[StoredSketch]:
        template = "" if unmatched else template
        # A text and NUL is the next one in order. Unmatched sketches come before those of all templates.
        first = ("\0", "") if template is None else (template, "")
        query = _OF_ALL if template is None else _OF_ONE
        while rows := self._file.read(query, (*first, _SKETCHES)):
            yield from (StoredSketch(*row) for row in rows)
            first = (rows[-1][0], rows[-1][1] + "\0")

    def drop_sketches(self, keys: Iterable[tuple[str, str]]) -> int:
        dropped = 0
        for batch in batched(keys, CHUNK):
            with self._file.write() as connection:
                statement = "DELETE FROM sketches WHERE template = ? AND meme = ?"
                dropped += connection.executemany(statement, batch).rowcount
        return dropped


def pages(file: SqliteFile, columns: str, where: Where, after: str, batch: int) -> Iterator[Parameters]:
    """Yield rows of `columns`, the first of which is the id, in order of id."""
    for condition, values in conditions(where, batch):
        query = f"SELECT {columns} FROM memes WHERE {condition} AND id > ? ORDER BY id LIMIT ?"
        yield from file.pages(query, values, after=after, n=batch)


def _upsert_chunk(connection: sqlite3.Connection, memes: Sequence[Meme]) -> Upserted:
    ids = list({meme.id for meme in memes})
    marks = ",".join("?" * len(ids))
    stored = dict(connection.execute(f"SELECT id, record FROM memes WHERE id IN ({marks})", ids).fetchall())
    banned = {i for (i,) in connection.execute(f"SELECT id FROM removed WHERE id IN ({marks})", ids)}
    known = {meme_id: read(Meme, record) for meme_id, record in stored.items()}
    current = known.copy()
    removed, orphans = 0, dict[str, None]()
    for meme in memes:
        if meme.id in banned:
            removed += 1
            orphans.update(dict.fromkeys(meme.blobs))
            continue
        there = current.get(meme.id)
        current[meme.id] = meme if there is None else there.merged(meme)
    changed = [meme for meme_id, meme in current.items() if meme is not known.get(meme_id)]
    connection.executemany(_INSERT, map(_row, changed))
    note_orphans(connection, orphans)
    for meme in changed:
        before = known.get(meme.id)
        keep_made(connection, (OF_MEME, meme.id), before.clean if before else None, meme.clean)
    inserted = len(current) - len(known)
    return Upserted(inserted, len(changed) - inserted, len(memes) - removed - len(changed), removed)


def _row(meme: Meme) -> Parameters:
    image, template = meme.image, meme.template
    return (
        meme.id, meme.model_dump_json(exclude_none=True), meme.source, template.id if template else None,
        meme.author, image.key if image else None, flags(meme),
    )  # fmt: skip


def _get_template(connection: sqlite3.Connection, template_id: str) -> Template | None:
    found = connection.execute("SELECT record FROM templates WHERE id = ?", (template_id,)).fetchone()
    return read(Template, found[0]) if found else None


def _put_template(connection: sqlite3.Connection, before: Template | None, template: Template) -> None:
    record = template.model_dump_json(exclude_none=True)
    key = template.image.key if template.image else None
    connection.execute("REPLACE INTO templates VALUES (?, ?, ?)", (template.id, record, key))
    keep_made(connection, (OF_TEMPLATE, template.id), before.clean if before else None, template.clean)
