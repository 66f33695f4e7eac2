"""The OCR stage: reads memes whose caption is only in the picture."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.leased import LeasedRun, NotDone, grouped, reasons
from memeloom.catalog.records import Meme, Ocr
from memeloom.catalog.resolved import ResolvedTemplates
from memeloom.catalog.stores import open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from memeloom.ocr.engines import registry
from memeloom.ocr.report.record import Outcome, RunRecord
from memeloom.ocr.report.run_page import reporting
from memeloom.ocr.words import WordModel
from memeloom.ocr.worker import OpenEngine, Picture, Reader, open_reader

STAGE = "ocr"
_GROUPS = ("kept", "dropped", "failed")
# More captions than this hardly improve the word model.
_MAX_CAPTIONS = 500_000


def read_memes(
    config: Config,
    progress: Progress = SILENT,
    *,
    open_engine: OpenEngine = registry.open_engine,
) -> Summary:
    """Read every meme that has a picture, no caption, and no earlier reading.

    Worker processes read the pictures; this process leases memes, writes and acknowledges. A picture that crashes or
    hangs its worker costs the meme one attempt. Acknowledged work survives a kill; leases expire after
    `ocr.lease_seconds`.

    open_engine: loads the engine in each worker.
    The summary's ``held`` counts memes leased by another run, or by a dead one.

    Raises:
        EngineMissing: the OCR engine cannot work on this machine.
        StoreError: a store refused or failed; unacknowledged memes return to the queue.
    """
    start = time.monotonic()
    registry.check_engine(config.ocr)
    with closing(open_documents(config.store)) as documents:
        job = OcrJob(documents)
        run: LeasedRun[Picture, Ocr] = LeasedRun(STAGE, job, documents, config.ocr, progress)
        try:
            with reporting(config, job.record) as report:
                documents.enqueue(STAGE, Where(image=True, caption=False, read=False))
                held = _read_all(config, documents, run, open_engine)
                job.record.outcomes += Counter({"failed/abandoned": run.tally["failed/abandoned"]})
        except MemeloomError as error:
            error.summary = _summary(run.tally, time.monotonic() - start)
            raise
    outputs = {"report": str(report)} if report.exists() else {}
    return replace(_summary(run.tally, time.monotonic() - start, held), outputs=outputs)


def word_model(documents: DocumentStore, language: str) -> WordModel | None:
    """Build the word model from the captions that pages state; None for a `language` other than English."""
    if language != "eng":
        return None  # the model's prior is common English
    captions = itertools.islice(documents.scan(Where(caption=True)), _MAX_CAPTIONS)
    return WordModel.of(text for meme in captions for text in meme.boxes)


class OcrJob:
    """The stage's `memeloom.catalog.leased.Job`; `record` collects what the report shows."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._templates = ResolvedTemplates(documents.templates())
        self.record = RunRecord()

    def work_for(self, meme: Meme) -> Picture | None:
        """Return the picture to read; None if the meme has a caption or a reading by now."""
        if meme.image is None or meme.boxes or meme.ocr:
            return None
        template = self._templates.get(meme.template.id) if meme.template else None
        return Picture(meme.id, meme.source, meme.image.key, template.boxes if template else ())

    def write(self, done: Sequence[tuple[Picture, Ocr]]) -> Mapping[str, str]:
        """Write the readings, and nothing else: other stages may have changed the memes meanwhile."""
        now = datetime.now(UTC)
        self._documents.upsert(
            Meme(id=picture.meme_id, source=picture.source, ocr=ocr, fetched_at=now) for picture, ocr in done
        )
        outcomes = {picture.meme_id: f"dropped/{ocr.dropped}" if ocr.dropped else "kept" for picture, ocr in done}
        self.record.add(Outcome(picture.meme_id, outcomes[picture.meme_id], ocr.confidence) for picture, ocr in done)
        return outcomes

    def give_up(self, meme_id: str, reason: str) -> None:
        """Record a meme that failed for good, for the report."""
        self.record.add([Outcome(meme_id, f"failed/{reason}")])


def _read_all(config: Config, documents: DocumentStore, run: LeasedRun[Picture, Ocr], open_engine: OpenEngine) -> int:
    """Read until nothing can be leased. Returns how many memes other runs hold."""
    if not run.has_work:
        return 0  # saves building the word model
    words = word_model(documents, config.ocr.language)
    opened = partial(open_reader, config, open_engine, words)
    return run.work_off(lambda pictures: _read(config, opened, pictures))


def _read(
    config: Config, opened: Callable[[], Reader], pictures: Iterator[Picture]
) -> Generator[tuple[Picture, Ocr | NotDone], None, None]:
    # Fetching and reading have a deadline each: a worker that exceeds both together hangs.
    guard = Guard(config.store.timeout_seconds + config.ocr.image_seconds, config.ocr.worker_memory_mb)
    for picture, result in try_partitions(opened, pictures, config.engine, guard):
        yield picture, NotDone(result.reason) if isinstance(result, Lost) else result


def _summary(tally: Mapping[str, int], seconds: float, held: int = 0) -> Summary:
    groups = Counter({name: n for name, n in grouped(tally).items() if name in _GROUPS})
    counts = {"memes": groups.total(), **{name: groups[name] for name in _GROUPS}}
    rest = {"settled": tally.get("settled", 0), "lost": tally.get("lost", 0), "held": held}
    return Summary(
        stage=STAGE,
        counts={**counts, **{name: n for name, n in rest.items() if n}},
        reasons=reasons(tally),
        seconds={"total": seconds},
    )
