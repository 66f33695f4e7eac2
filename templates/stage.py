"""The stage that finds out what each meme is made on, and that finds the templates which no site tells of."""

import time
from collections.abc import Iterator
from dataclasses import replace

from memeloom.catalog.documents import Where, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.report.write import reporting
from memeloom.templates.run import STAGE, Run


def match_memes(config: Config, progress: Progress, *, retry_failed: bool = False, again: bool = False) -> Summary:
    """Recognise the template of every meme with a picture whose page does not name it; find new templates.

    This process leases memes in batches, worker processes sketch their pictures, and this process alone compares
    the sketches and writes what they tell. A picture that kills or stalls its worker is charged an attempt.
    Killed at any moment nothing acknowledged is lost; what a dead run held comes back after `templates.lease_seconds`.

    retry_failed: what was set aside is tried again, too.
    again: memes that stayed unknown are looked at again, those that were forgotten as strangers included.

    The summary's ``held`` counts memes that another run holds, or held when it died.

    Raises:
        ConfigError: a worker needs more memory than it may have.
        StoreError: a store refused or failed; what was not acknowledged is given back, or comes back.
    """
    start = time.monotonic()
    documents = open_documents(config.store)
    try:
        run = Run(config, documents, progress)
        try:
            with reporting(config, run.outcomes) as report:
                if retry_failed:
                    documents.retry(STAGE)
                documents.enqueue(STAGE, Where(image=True, template_known=False), again=again)
                held = run.work_off()
        except MemeloomError as error:
            error.summary = run.summary(time.monotonic() - start)
            raise
    finally:
        documents.close()
    outputs = {"report": str(report)} if report.exists() else {}
    return replace(run.summary(time.monotonic() - start, held), outputs=outputs)


def failed_memes(config: Config) -> Iterator[tuple[str, str]]:
    """Yield id and reason of each meme whose picture could not be looked at, in order of id. Raises StoreError."""
    documents = open_documents(config.store)
    try:
        yield from documents.failed(STAGE)
    finally:
        documents.close()
