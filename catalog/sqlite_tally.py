"""Counters in SQLite: kept by whoever changes what they count, in the same transaction."""

# Statements consist of this module's constants; every value is a bound parameter.
# ruff: noqa: S608

import sqlite3
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from memeloom.catalog.documents import HAS_CAPTION, HAS_IMAGE, HAS_TEMPLATE, IS_READ, Counts, stage_counts
from memeloom.catalog.sqlite_tables import STATES

# Template ("" if it is unknown), source and flags of a meme.
Kind: TypeAlias = tuple[str, str, int]

_ADD = "INSERT INTO tally VALUES (?, ?, ?, ?) ON CONFLICT (template, source, flags) DO UPDATE SET n = n + excluded.n"
_STATE = (
    "CASE WHEN json_extract(record, '$.merged_into') IS NOT NULL THEN 'merged'"
    " ELSE coalesce(json_extract(record, '$.state'), 'known') END"
)


def count_memes(connection: sqlite3.Connection, changes: Mapping[Kind, int]) -> None:
    """Count so many more memes of each kind, or fewer."""
    connection.executemany(_ADD, [(*kind, n) for kind, n in sorted(changes.items()) if n])


def read_counts(connection: sqlite3.Connection) -> Counts:
    """Return the size of the catalog, of one moment if the connection has a transaction."""
    sources, templates, bits = Counter[str](), Counter[str](), Counter[int]()
    for template, source, flags, n in connection.execute("SELECT template, source, flags, n FROM tally WHERE n > 0"):
        sources[source] += n
        if flags & HAS_TEMPLATE:
            templates[template] += n
        for bit in (HAS_IMAGE, HAS_CAPTION, IS_READ):
            bits[bit] += n if flags & bit else 0
    states = connection.execute(f"SELECT {_STATE}, count(*) FROM templates GROUP BY 1")
    work = connection.execute("SELECT stage, state, reason, n FROM work_tally WHERE n > 0")
    return Counts(
        memes=sources.total(),
        images=bits[HAS_IMAGE],
        captions=bits[HAS_CAPTION],
        read=bits[IS_READ],
        sources=dict(sorted(sources.items())),
        templates=dict(sorted(templates.items(), key=lambda item: (-item[1], item[0]))),
        template_records=dict(states.fetchall()),
        unmatched=connection.execute("SELECT unmatched FROM state").fetchone()[0],
        stages=stage_counts((stage, STATES[state], reason or None, n) for stage, state, reason, n in work),
    )
