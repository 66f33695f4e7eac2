"""The stage that keeps text and picture apart: for each meme, its picture without the words, and where those stood."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TypeAlias

from memeloom.catalog.blobs import open_blobs
from memeloom.catalog.documents import DocumentStore, Where, open_documents
from memeloom.catalog.images import decode_image
from memeloom.catalog.leased import LeasedRun, NotDone, grouped, reasons
from memeloom.catalog.records import Image, Made, Meme, OcrBox
from memeloom.catalog.standing import Standing
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.templates.made import keep_made
from memeloom.templates.wordless import Blank, take_words_off
from memeloom.templates.worker import not_done, worked

STAGE = "inpaint"
NO_WORDS = "no words"
_BLANKS = 16  # templates that a worker remembers; memes on one come in no order
_OUTCOMES = ("inpainted", "from template", "skipped", "failed")


@dataclass(frozen=True, slots=True)
class Worded:
    """A meme's picture, the texts that were read in it, and the picture of its template, if there is one."""

    meme_id: str
    source: str
    image: Image
    boxes: tuple[OcrBox, ...]
    blank: Image | None


Taker: TypeAlias = Callable[[Worded], Made | str | NotDone]


class TakingApart:
    """What the stage does with memes: a `memeloom.catalog.leased.Job`."""

    def __init__(self, documents: DocumentStore, *, again: bool) -> None:
        self._documents = documents
        self._again = again
        self._standing = Standing(documents.templates())

    def work_for(self, meme: Meme) -> Worded | None:
        """Its picture with what tells where words stand; None if nothing does, or it was done already."""
        if meme.image is None or (meme.clean and not self._again and meme.image.key in meme.clean.made_from):
            return None
        boxes = tuple(box for box in meme.ocr.boxes if box.text.strip()) if meme.ocr else ()
        template = self._standing.get(meme.template.id) if meme.template else None
        blank = template.picture if template else None
        return Worded(meme.id, meme.source, meme.image, boxes, blank) if boxes or blank else None

    def write(self, done: Sequence[tuple[Worded, Made | str]]) -> Mapping[str, str]:
        """Write the pictures that were made."""
        now = datetime.now(UTC)
        # Only the new fact is written: what others learn about the meme meanwhile stays.
        self._documents.upsert(
            Meme(id=work.meme_id, source=work.source, clean=made, fetched_at=now)
            for work, made in done
            if isinstance(made, Made)
        )
        return {work.meme_id: _outcome(made) for work, made in done}

    def set_aside(self, meme_id: str, reason: str) -> None:
        """The tally has it."""


def apart_memes(config: Config, progress: Progress, *, retry_failed: bool = False, again: bool = False) -> Summary:
    """Make, for every meme whose words were read or whose template has a picture, its picture without the words.

    Workers store the pictures, this process writes that they exist and acknowledges. Killed at any moment nothing
    acknowledged is lost; a meme that is done twice gives the same bytes. Memes about which nothing was known are
    asked again in each run: they may have been read, or recognised, meanwhile.

    retry_failed: what was set aside is tried again, too.
    again: what has such a picture gets a new one, by what is known now.

    Raises:
        ConfigError: a worker needs more memory than it may have.
        StoreError: a store refused or failed; what was not acknowledged is given back, or comes back.
    """
    start = time.monotonic()
    documents = open_documents(config.store)
    try:
        run: LeasedRun[Worded, Made | str] = LeasedRun(
            STAGE, TakingApart(documents, again=again), documents, config.templates, progress
        )
        try:
            if retry_failed:
                documents.retry(STAGE)
            for where in (Where(image=True, read=True), Where(image=True, template_known=True)):
                documents.enqueue(STAGE, where if again else _without(where), again=True)
            held = run.work_off(lambda work: worked(config, partial(open_taker, config), work))
        except MemeloomError as error:
            error.summary = _summary(run.tally, time.monotonic() - start)
            raise
    finally:
        documents.close()
    return _summary(run.tally, time.monotonic() - start, held)


def open_taker(config: Config) -> Taker:
    """Open the blob store; returns what makes and stores one meme's picture without words.

    It answers with that picture, with the reason why there is none, or with why it failed.

    Raises:
        StoreError: the blob store cannot be opened.
    """
    blobs, most = open_blobs(config.store), config.crawl.max_image_pixels

    @lru_cache(maxsize=_BLANKS)
    def blank_of(key: str) -> Blank:
        return Blank.of(decode_image(blobs.get(key), max_pixels=most))

    def take(work: Worded) -> Made | str | NotDone:
        try:
            picture = decode_image(blobs.get(work.image.key), max_pixels=most)
            blank = _or_none(blank_of, work.blank)
            done = take_words_off(picture, work.boxes, blank)
            if done is None:
                return NO_WORDS
            parts = (work.image, work.blank) if work.blank and done.method == "template" else (work.image,)
            return keep_made(blobs, done.picture, done.mask, done.method, parts)
        except Exception as error:  # noqa: BLE001 one picture in a million must not end the stage
            return not_done(error)

    return take


def _or_none(blank_of: Callable[[str], Blank], image: Image | None) -> Blank | None:
    """The template's picture; a meme can do without one that is missing or broken."""
    if image is None:
        return None
    try:
        return blank_of(image.key)
    except Exception as error:
        if isinstance(not_done(error), NotDone):
            return None
        raise


def _without(where: Where) -> Where:
    return Where(image=where.image, read=where.read, template_known=where.template_known, clean=False)


def _outcome(made: Made | str) -> str:
    if isinstance(made, str):
        return f"skipped/{made}"
    return "from template" if made.method == "template" else "inpainted"


def _summary(tally: Mapping[str, int], seconds: float, held: int = 0) -> Summary:
    groups = grouped(tally)
    counts = {"memes": sum(groups[name] for name in _OUTCOMES), **{name: groups[name] for name in _OUTCOMES[:2]}}
    rest = {**{name: groups[name] for name in (*_OUTCOMES[2:], "settled", "retried", "lost")}, "held": held}
    return Summary(
        stage=STAGE,
        counts={**counts, **{name: n for name, n in rest.items() if n}},
        reasons=reasons(tally),
        seconds={"total": seconds},
    )
