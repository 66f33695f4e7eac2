"""The stage that reads memes whose caption is only in the picture."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from memeloom.catalog.documents import DocumentStore, Where, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.ocr import engine
from memeloom.ocr.report.write import reporting
from memeloom.ocr.run import STAGE, Run
from memeloom.ocr.words import WordModel
from memeloom.ocr.worker import OpenEngine, open_reader

# More captions than this teach the word model little.
_MOST_CAPTIONS = 500_000


def read_memes(
    config: Config, progress: Progress, *, retry_failed: bool = False, open_engine: OpenEngine = engine.open_engine
) -> Summary:
    """Read every meme that has a picture and no caption, and that was not read before.

    This process leases memes in batches, worker processes read their pictures, and this process writes
    what they read and acknowledges it. A picture that kills or stalls its worker is charged an attempt.
    Killed at any moment nothing acknowledged is lost; what a dead run held comes back after `ocr.lease_seconds`.

    retry_failed: what was set aside is tried again, too.
    open_engine: what loads the engine in each worker.

    The summary's ``held`` counts memes that another run holds, or held when it died.

    Raises:
        EngineMissing: the OCR engine cannot work on this machine.
        StoreError: a store refused or failed; what was not acknowledged is given back, or comes back.
    """
    start = time.monotonic()
    engine.check_engine(config.ocr)
    documents = open_documents(config.store)
    try:
        run = Run(config, documents, progress)
        try:
            with reporting(config, run.seen) as report:
                if retry_failed:
                    documents.retry(STAGE)
                documents.enqueue(STAGE, Where(image=True, caption=False, read=False))
                held = _read_all(config, documents, run, open_engine)
        except MemeloomError as error:
            error.summary = run.summary(time.monotonic() - start)
            raise
    finally:
        documents.close()
    outputs = {"report": str(report)} if report.exists() else {}
    return replace(run.summary(time.monotonic() - start, held), outputs=outputs)


def failed_memes(config: Config) -> Iterator[tuple[str, str]]:
    """Yield id and reason of each meme whose picture could not be read, in order of id. Raises StoreError."""
    documents = open_documents(config.store)
    try:
        yield from documents.failed(STAGE)
    finally:
        documents.close()


def word_model(documents: DocumentStore, language: str) -> WordModel | None:
    """The words of the catalog's own captions, as pages state them; None where another `language` is read."""
    if language != "eng":
        return None  # the model begins with common English
    captions = itertools.islice(documents.scan(Where(caption=True)), _MOST_CAPTIONS)
    return WordModel.of(text for meme in captions for text in meme.boxes)


def _read_all(config: Config, documents: DocumentStore, run: Run, open_engine: OpenEngine) -> int:
    """Read until nothing can be leased. Returns how many memes others hold."""
    if not run.has_work:
        return 0  # the word model is not to be made in vain
    words = word_model(documents, config.ocr.language)
    return run.read_all(partial(open_reader, config, open_engine, words.to_bytes() if words else None))
