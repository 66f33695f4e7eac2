"""One run of the OCR stage: leases out to the workers as pictures, what they read back into the catalog."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.leased import LeasedRun, NotDone, grouped, reasons
from memeloom.catalog.records import Meme, Ocr
from memeloom.catalog.standing import Standing
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from memeloom.ocr.report.seen import Note, Seen
from memeloom.ocr.worker import Picture, Reader

STAGE = "ocr"
_GROUPS = ("kept", "dropped", "failed")


class Reading:
    """The OCR stage as a `memeloom.catalog.leased.Job`; `seen` keeps what the report shows."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._templates = Standing(documents.templates())
        self.seen = Seen()

    def work_for(self, meme: Meme) -> Picture | None:
        """Its picture. It may have got its caption meanwhile, or have been read by one who died too soon to say so."""
        if meme.image is None or meme.boxes or meme.ocr:
            return None
        template = self._templates.get(meme.template.id) if meme.template else None
        return Picture(meme.id, meme.source, meme.image.key, template.boxes if template else ())

    def write(self, done: Sequence[tuple[Picture, Ocr]]) -> Mapping[str, str]:
        """Only the new fact is written: what others learn about the memes meanwhile stays."""
        now = datetime.now(UTC)
        self._documents.upsert(
            Meme(id=picture.meme_id, source=picture.source, ocr=ocr, fetched_at=now) for picture, ocr in done
        )
        self.seen.see(Note(picture.meme_id, _outcome(ocr), ocr.confidence) for picture, ocr in done)
        return {picture.meme_id: _outcome(ocr) for picture, ocr in done}

    def set_aside(self, meme_id: str, reason: str) -> None:
        """It is shown in the report."""
        self.seen.see([Note(meme_id, f"failed/{reason}")])


class Run:
    """A `Reading` of all that is pending, and its summary. The tally knows ``kept`` and ``dropped/REASON``, too."""

    def __init__(self, config: Config, documents: DocumentStore, progress: Progress) -> None:
        self._config = config
        reading = Reading(documents)
        self.seen = reading.seen
        self._leased = LeasedRun(STAGE, reading, documents, config.ocr, progress)

    @property
    def has_work(self) -> bool:
        """Whether anything can be read, or is being read by others."""
        return self._leased.has_work

    def read_all(self, opened: Callable[[], Reader]) -> int:
        """Read until nothing can be leased. Returns how many memes others hold.

        opened: what each worker is opened with.
        """
        held = self._leased.work_off(lambda pictures: self._read(opened, pictures))
        if abandoned := self._leased.tally["failed/abandoned"]:
            self.seen.outcomes["failed/abandoned"] += abandoned
        return held

    def summary(self, seconds: float, held: int = 0) -> Summary:
        """What was done. held: memes that another run holds."""
        tally = self._leased.tally
        groups = Counter({name: n for name, n in grouped(tally).items() if name in _GROUPS})
        counts = {"memes": groups.total(), **{name: groups[name] for name in _GROUPS}}
        rest = {"settled": tally["settled"], "lost": tally["lost"], "held": held}
        return Summary(
            stage=STAGE,
            counts={**counts, **{name: n for name, n in rest.items() if n}},
            reasons=reasons(tally),
            seconds={"total": seconds},
        )

    def _read(
        self, opened: Callable[[], Reader], pictures: Iterator[Picture]
    ) -> Generator[tuple[Picture, Ocr | NotDone], None, None]:
        settings = self._config.ocr
        # A picture is fetched within one deadline and read within the other: whoever takes more than both hangs.
        guard = Guard(self._config.store.timeout_seconds + settings.image_seconds, settings.worker_memory_mb)
        for picture, result in try_partitions(opened, pictures, self._config.engine, guard):
            yield picture, NotDone(result.reason) if isinstance(result, Lost) else result


def _outcome(ocr: Ocr) -> str:
    return f"dropped/{ocr.dropped}" if ocr.dropped else "kept"
