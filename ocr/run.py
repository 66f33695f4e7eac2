"""One run of the OCR stage: leases out to the workers as pictures, what they read back into the catalog."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from catalog.documents import DocumentStore, Where
from catalog.errors import LeaseLost, StoreError
from catalog.held import HeldLeases
from catalog.records import Meme, Ocr
from catalog.standing import Standing
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config
from engine.crew import Guard, Lost
from engine.pool import try_partitions
from ocr.report.seen import Note, Seen
from ocr.worker import Picture, Reader, Unread

STAGE = "ocr"
_GROUPS = ("kept", "dropped", "failed")


class Run:
    """What was read and is not written yet, and what became of everything so far.

    The tally knows ``kept``, ``dropped/REASON``, ``failed/REASON`` (for good), ``settled`` (nothing to read any
    more), ``retried`` (failed, will be tried again) and ``lost`` (the lease ran out meanwhile).
    What is worth showing of it afterwards is `seen`.
    """

    def __init__(self, config: Config, documents: DocumentStore, progress: Progress) -> None:
        self._config = config
        self._documents = documents
        self._progress = progress
        self._templates = Standing(documents.templates())
        self._unwritten: dict[str, Meme | None] = {}
        self.tally: Counter[str] = Counter()
        self.seen = Seen()

    def read_round(self, opened: Callable[[], Reader]) -> bool:
        """Read all that is pending; False if nothing was.

        opened: what each worker is opened with.
        """
        settings = self._config.ocr
        # A picture is fetched within one deadline and read within the other: whoever takes more than both hangs.
        guard = Guard(self._config.store.timeout_seconds + settings.image_seconds, settings.worker_memory_mb)
        before = self.tally.total()
        with HeldLeases(self._documents, STAGE, settings.lease_seconds) as held:
            try:
                for picture, result in try_partitions(opened, self._pictures(held), self._config.engine, guard):
                    self._take(held, picture, result)
                    self._write_if(held, settings.batch)
            except StoreError:
                # A store that failed is not waited for a second time: what was read is given back with the rest.
                self._unwritten = {}
                raise
            finally:
                self._write_if(held, 1)
                self.tally["lost"] += held.lost
        return self.tally.total() > before

    def summary(self, seconds: float, held: int = 0) -> Summary:
        """What was done. held: memes that another run holds."""
        groups = _grouped(self.tally)
        counts = {"memes": groups.total(), **{name: groups[name] for name in _GROUPS}}
        rest = {"settled": self.tally["settled"], "lost": self.tally["lost"], "held": held}
        return Summary(
            stage=STAGE,
            counts={**counts, **{name: n for name, n in rest.items() if n}},
            reasons={outcome.partition("/")[2]: n for outcome, n in self.tally.most_common() if "/" in outcome},
            seconds={"total": seconds},
        )

    def _pictures(self, held: HeldLeases) -> Iterator[Picture]:
        settings = self._config.ocr
        while ids := held.take(settings.batch, settings.attempts):
            memes = {meme.id: meme for meme in self._documents.scan(Where(ids=tuple(ids)))}
            for meme_id in ids:
                meme = memes.get(meme_id)
                # It may have got its caption since it was enqueued, or have been read by one who died too soon.
                if meme is None or meme.image is None or meme.boxes or meme.ocr:
                    self._unwritten[meme_id] = None
                else:
                    template = self._templates.get(meme.template.id) if meme.template else None
                    yield Picture(meme.id, meme.source, meme.image.key, template.boxes if template else ())
            self._write_if(held, settings.batch)

    def _take(self, held: HeldLeases, picture: Picture, result: Ocr | Unread | Lost) -> None:
        match result:
            case Ocr():
                # Only the new fact is written: what others learn about the meme meanwhile stays.
                now = datetime.now(UTC)
                meme = Meme(id=picture.meme_id, source=picture.source, ocr=result, fetched_at=now)
                self._unwritten[picture.meme_id] = meme
            case Lost(reason):
                self._fail(held, picture.meme_id, reason, self._config.ocr.attempts)
            case Unread(reason, again):
                self._fail(held, picture.meme_id, reason, self._config.ocr.attempts if again else 1)

    def _fail(self, held: HeldLeases, meme_id: str, reason: str, attempts: int) -> None:
        try:
            done = held.fail(meme_id, reason, attempts)
        except LeaseLost:
            return  # `held` counts it
        self._count(Counter([f"failed/{reason}" if done else "retried"]))
        if done:
            self.seen.see([Note(meme_id, f"failed/{reason}")])

    def _write_if(self, held: HeldLeases, n: int) -> None:
        """Write what was read and acknowledge it, if it is as much as `n`."""
        if len(self._unwritten) < n:
            return
        # What someone else holds now is theirs to write.
        ours = {meme_id: meme for meme_id, meme in self._unwritten.items() if meme_id in held}
        self._unwritten = {}
        self._documents.upsert(meme for meme in ours.values() if meme)
        held.acknowledge(ours)
        self._count(Counter(_outcome(meme) for meme in ours.values()))
        self.seen.see(Note(meme.id, _outcome(meme), meme.ocr.confidence) for meme in ours.values() if meme and meme.ocr)

    def _count(self, outcomes: Counter[str]) -> None:
        self.tally += outcomes
        groups = _grouped(outcomes)
        if done := groups.total() + outcomes["settled"]:
            self._progress.advance(done, **groups)


def _outcome(meme: Meme | None) -> str:
    if meme is None or meme.ocr is None:
        return "settled"
    return f"dropped/{meme.ocr.dropped}" if meme.ocr.dropped else "kept"


def _grouped(tally: Counter[str]) -> Counter[str]:
    """The memes that are done with, as ``kept``, ``dropped`` and ``failed``."""
    groups: Counter[str] = Counter()
    for outcome, n in tally.items():
        group = outcome.partition("/")[0]
        if group in _GROUPS:
            groups[group] += n
    return groups
