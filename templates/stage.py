"""The stage that finds out which known template each meme is made on.

It compares hashes that the catalog holds, tens of thousands a second, so one process does it.
Work is leased like that of every stage: several runs on several machines share it.
"""

import time
from collections import Counter
from datetime import UTC, datetime

from catalog.documents import DocumentStore, Lease, StageCounts, Where, open_documents
from catalog.records import Meme
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config
from templates.index import TemplateIndex

STAGE = "templates"


def match_memes(config: Config, progress: Progress) -> Summary:
    """Recognise the template of every meme with a picture whose page does not name it.

    A match is written to the meme, at a distance; everything else is counted: ``unknown``, and
    ``settled`` for memes that lost their picture or learned their template meanwhile.
    ``held`` counts memes that another run is at, or held when it died; those come back after
    `templates.lease_seconds`. Without any template picture in the catalog nothing is done, and no
    meme counts as seen.

    Raises:
        StoreError: the catalog refused or failed; what was acknowledged is safe.
    """
    start = time.monotonic()
    settings = config.templates
    documents = open_documents(config.store)
    tally: Counter[str] = Counter()
    try:
        index = TemplateIndex(settings.max_distance, settings.max_distance_256)
        known = sum(index.add(template) for template in documents.templates())
        if known:
            documents.enqueue(STAGE, Where(image=True, template_known=False))
            progress.start(STAGE, _work(documents).pending, "memes")
            while leases := documents.lease(STAGE, settings.batch, settings.lease_seconds, settings.attempts):
                done = _match_batch(documents, index, leases)
                tally += done
                progress.advance(len(leases), **done)
            progress.finish()
        held = _work(documents).leased
    finally:
        documents.close()
    counts = {"templates": known, "memes": tally.total(), "matched": tally["matched"]}
    return Summary(
        stage=STAGE,
        counts={**counts, "held": held} if held else counts,
        reasons={reason: tally[reason] for reason in ("unknown", "settled") if tally[reason]},
        seconds={"total": time.monotonic() - start},
    )


def _work(documents: DocumentStore) -> StageCounts:
    return documents.counts().stages.get(STAGE, StageCounts())


def _match_batch(documents: DocumentStore, index: TemplateIndex, leases: list[Lease]) -> Counter[str]:
    now = datetime.now(UTC)
    tally: Counter[str] = Counter()
    memes = {meme.id: meme for meme in documents.scan(Where(ids=tuple(lease.meme_id for lease in leases)))}
    matched = []
    for lease in leases:
        meme = memes.get(lease.meme_id)
        if meme is None or meme.image is None or meme.template is not None:
            tally["settled"] += 1
        elif template := index.match(meme.image).template:
            # Only the new fact is written: what others learn about the meme meanwhile stays.
            matched.append(Meme(id=meme.id, source=meme.source, template=template, fetched_at=now))
        else:
            tally["unknown"] += 1
    documents.upsert(matched)
    documents.ack(leases)
    if matched:
        tally["matched"] = len(matched)
    return tally
