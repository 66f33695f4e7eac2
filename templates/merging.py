"""Merges a template into the one that it turned out to be: its members learn it, its exemplars are exemplars of it."""

from datetime import UTC, datetime

from memeloom.catalog.documents import DocumentStore, StoredSketch, Where, batched
from memeloom.catalog.records import Meme, Template

_BATCH = 500


def merge(documents: DocumentStore, template_id: str, into: Template) -> list[StoredSketch]:
    """Let a template be `into` from now on, for good. Returns the exemplars that moved.

    Killed on the way it can be done again; `finish_merge` is enough then, and a merged template that still has
    sketches is where it is not finished.

    Raises:
        StoreError: the catalog refused or failed.
    """
    documents.revise_template(template_id, lambda known: known.model_copy(update={"merged_into": into.id}))
    return finish_merge(documents, template_id, into)


def finish_merge(documents: DocumentStore, template_id: str, into: Template) -> list[StoredSketch]:
    """What `merge` does after the template has been told. Raises StoreError."""
    point_members(documents, template_id, into)
    there = list(documents.sketches(template_id))
    moved = [StoredSketch(into.id, each.meme, each.data) for each in there if each.meme]
    documents.put_sketches(moved)
    documents.drop_sketches([each.key for each in there])
    return moved


def point_members(documents: DocumentStore, template_id: str, into: Template) -> int:
    """Let every meme that refers to a template refer to `into`, as it did before. Returns how many did."""
    moved = 0
    ref, now = into.ref(), datetime.now(UTC)
    for memes in batched(documents.scan(Where(template=template_id), batch=_BATCH), _BATCH):
        known = [(meme, meme.template) for meme in memes if meme.template]
        documents.upsert(
            Meme(
                id=meme.id,
                source=meme.source,
                template=ref.model_copy(update={"known": old.known, "distance": old.distance}),
                fetched_at=now,
            )
            for meme, old in known
        )
        moved += len(memes)
    return moved
