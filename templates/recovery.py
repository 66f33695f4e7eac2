"""Pictures and text boxes for the templates of the catalog that lack them, from their memes.

Each template is a piece of work for a worker, which may run anywhere and again: the same memes give the same bytes.
A template that got twice as many memes since is done again.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from memeloom.catalog.blobs import BlobStore, open_blobs
from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.images import decode_image, hamming
from memeloom.catalog.leased import NotDone
from memeloom.catalog.records import Image, Made, Meme, OcrBox, Template, TemplateBox
from memeloom.catalog.standing import Standing
from memeloom.configs.progress import Progress
from memeloom.configs.schema import Config
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from memeloom.templates.boxes import learn_boxes
from memeloom.templates.made import keep_picture
from memeloom.templates.recover import FEWEST_MEMBERS, MOST_MEMBERS, Ground, Laid, Member, grey_of, lay, recover
from memeloom.templates.sketch import sketch
from memeloom.templates.worker import not_done

STAGE = "pictures of templates"
_GROWN = 2  # times as many members as it was made from
_LOOKED_AT = 4 * MOST_MEMBERS  # memes among which copies are passed over
_COPY = 8  # bits of 256: one meme, posted twice
_PATIENCE = 10  # times what one image may take


@dataclass(frozen=True, slots=True)
class Wanted:
    """A template and some of its memes, with the texts that were read in them. blank: its picture, if it has one."""

    template: str
    members: tuple[tuple[Image, tuple[OcrBox, ...]], ...]
    blank: Image | None


@dataclass(frozen=True, slots=True)
class Learned:
    """What memes tell of their template. made: its picture, if it had none. left_out: memes that do not fit."""

    made: Made | None
    boxes: tuple[TemplateBox, ...]
    left_out: int


Recoverer: TypeAlias = Callable[[Wanted], Learned | NotDone]


def recover_templates(config: Config, documents: DocumentStore, progress: Progress) -> Counter[str]:
    """Give a picture, and text boxes, to every template that lacks them and has the memes for it.

    Templates that a site gives a picture of get only text boxes, if the site states none. What a person or a site
    says meanwhile stays. Killed at any moment, the rest is done by the next run.

    Returns:
        Counts of ``pictures`` and ``boxes`` (templates that got some), ``left out`` (memes that did not fit their
        template), and ``failed/REASON`` (templates).

    Raises:
        StoreError: a store refused or failed.
    """
    tally: Counter[str] = Counter()
    lacking = [template for template in Standing(documents.templates()).standing() if _lacks(template)]
    if not lacking:
        return tally
    progress.start(STAGE, len(lacking), "templates")
    seconds = config.store.timeout_seconds + _PATIENCE * config.templates.image_seconds
    guard = Guard(seconds, config.templates.worker_memory_mb)
    least = max(FEWEST_MEMBERS, config.templates.min_members)
    work = _work(documents, lacking, least, progress)
    for piece, result in try_partitions(partial(open_recoverer, config), work, config.engine, guard):
        if isinstance(result, NotDone | Lost):
            tally[f"failed/{result.reason}"] += 1
        else:
            tally += _write(documents, piece.template, result)
        progress.advance(1)
    progress.finish()
    return tally


def open_recoverer(config: Config) -> Recoverer:
    """Open the blob store; returns what learns from the memes of one template. Raises StoreError."""
    blobs, most = open_blobs(config.store), config.crawl.max_image_pixels

    def work(wanted: Wanted) -> Learned | NotDone:
        try:
            members = list(_members(blobs, wanted, most))
            if wanted.blank is None:
                return _recovered(blobs, members)
            blank = decode_image(blobs.get(wanted.blank.key), max_pixels=most)
            ground = Ground.of(blank)
            laid = [on for member in members if (on := lay(member, sketch(grey_of(member.picture)), ground))]
            return _told(laid, Learned(None, learn_boxes(laid, blank), len(members) - len(laid)))
        except Exception as error:  # noqa: BLE001 one template must not end the stage
            return not_done(error)

    return work


def _recovered(blobs: BlobStore, members: list[Member]) -> Learned | NotDone:
    found = recover(members)
    if found is None:
        return NotDone("memes do not fit together", again=False)
    keys = tuple(sorted(each.member.key for each in found.laid))
    made = Made(image=keep_picture(blobs, found.picture, "jpeg"), method="median", made_from=keys)
    return Learned(made, learn_boxes(found.laid, found.picture), found.left_out)


def _told(laid: list[Laid], learned: Learned) -> Learned | NotDone:
    return learned if len(laid) >= FEWEST_MEMBERS else NotDone("memes do not fit the picture", again=False)


def _members(blobs: BlobStore, wanted: Wanted, most: int) -> Iterator[Member]:
    """The memes whose pictures can be had."""
    for image, boxes in wanted.members:
        try:
            picture = decode_image(blobs.get(image.key), max_pixels=most)
        except Exception as error:  # noqa: BLE001 the others may be enough
            not_done(error)  # raises what concerns them all
        else:
            yield Member(image.key, picture, boxes)


def _work(documents: DocumentStore, lacking: list[Template], least: int, progress: Progress) -> Iterator[Wanted]:
    """What there are memes enough for."""
    for template in lacking:
        members = _chosen(documents.scan(Where(template=template.id, image=True)))
        if template.image is not None:
            members = [member for member in members if member[1]]
        elif template.clean and len(members) < _GROWN * len(template.clean.made_from):
            members = []
        if len(members) >= least:
            yield Wanted(template.id, tuple(members), template.image)
        else:
            progress.advance(1)


def _chosen(memes: Iterator[Meme]) -> list[tuple[Image, tuple[OcrBox, ...]]]:
    """Those with the smallest keys, which are any and always the same; of copies one. Few are held in memory."""
    keyed = ((meme.image.key, meme.id, meme) for meme in memes if meme.image)
    chosen: list[tuple[Image, tuple[OcrBox, ...]]] = []
    for _, _, meme in heapq.nsmallest(_LOOKED_AT, keyed):
        image = meme.image
        if image is None or any(hamming(image.phash256, other.phash256) <= _COPY for other, _ in chosen):
            continue
        boxes = meme.ocr.boxes if meme.ocr else ()
        chosen.append((image, tuple(box for box in boxes if box.text.strip())))
        if len(chosen) == MOST_MEMBERS:
            break
    return chosen


def _lacks(template: Template) -> bool:
    """Whether memes could tell something of it that no site does."""
    return template.image is None or not template.boxes


def _write(documents: DocumentStore, template_id: str, learned: Learned) -> Counter[str]:
    """Write what was learned, unless a site or a person says something else meanwhile."""

    def change(now: Template) -> Template:
        changes: dict[str, object] = {}
        if learned.made and now.image is None:
            changes["clean"] = learned.made
        if learned.boxes and all(box.style for box in now.boxes):
            changes["boxes"] = learned.boxes
        return now.model_copy(update=changes)

    documents.revise_template(template_id, change)
    written = {"pictures": learned.made is not None, "boxes": bool(learned.boxes), "left out": learned.left_out}
    return Counter({name: int(n) for name, n in written.items() if n})
