"""Apply the steps to a piece of the catalog, and write a block, in a worker."""

from collections import Counter, defaultdict
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson

from memeloom.configs.schema import Dataset
from memeloom.dataset.dropped import SPLIT
from memeloom.dataset.flow.block import ROW, SEGMENTS, Array, Head, Pairs, write_block
from memeloom.dataset.flow.drops import DropLog, apply_and_log, step_before
from memeloom.dataset.flow.memes import HASH_BYTES, UNKNOWN_TIME, Facts, naming_key, read_caption, read_facts
from memeloom.dataset.flow.plan import read_plan
from memeloom.dataset.flow.similarity import MIX, normalise_all, signatures
from memeloom.dataset.flow.work import WorkPlace, name_hash, name_hashes, open_work
from memeloom.dataset.schema import SPLITS, DatasetRecord, Split
from memeloom.dataset.split import Place, Splitter
from memeloom.dataset.steps.caption import Caption, Step
from memeloom.dataset.steps.registry import DUPLICATES, build_steps
from memeloom.engine.steps import Drop

_NUMBERS = {split: number for number, split in enumerate(SPLITS)}
# The line of a block: the first fields of a caption, up to its image key, then score, views and time of the post.
_IN_LINE = 7
_SECOND = 1_000_000


class Filter(NamedTuple):
    """A piece to filter; `plan` is the hash of the plan in the work folder."""

    work: WorkPlace
    plan: str
    key: str
    records: list[bytes]


class Filtered(NamedTuple):
    """Numbers of memes read and captions kept."""

    memes: int
    rows: int


def filter_piece(task: Filter) -> Filtered:
    """Apply the steps of the plan to a piece, and write the captions kept as a block."""
    plan = read_plan(task.work, task.plan)
    steps, splitter = prepare(plan.settings)
    dropped: defaultdict[str, Counter[str]] = defaultdict(Counter)
    details: defaultdict[str, Counter[str]] = defaultdict(Counter)
    log = DropLog(plan.settings.separator, wanted=plan.settings.keep_dropped)
    named: set[str] = set()
    read: list[Facts] = []
    for record in task.records:
        source, facts, template = read_facts(record, plan.naming, plan.settings.images)
        if template is not None:
            named.add(template)
        if isinstance(facts, Drop):
            dropped[facts.reason][source] += 1
            if log.wanted:
                log.add(read_caption(record, plan.naming), facts, step_before(facts))
        else:
            read.append(facts)
    kept: list[Kept] = []
    outcomes = apply_and_log(_named(plan.settings, steps), [each.caption for each in read], log)
    words = iter(normalise_all([each.boxes for each in outcomes if not isinstance(each, Drop)]))
    for facts, outcome in zip(read, outcomes, strict=True):
        found = outcome if isinstance(outcome, Drop) else _placed(facts, outcome, next(words), splitter, log)
        if isinstance(found, Drop):
            dropped[found.reason][facts.caption.source] += 1
            if found.detail:
                details[found.reason][found.detail] += 1
        else:
            kept.append(found)
    kept, rows, lines = _rows(kept)
    captions = [each.caption for each in kept]
    _, by_pictures = near_settings(plan.settings)
    head = Head(
        memes=len(task.records),
        rows=len(rows),
        pictures=any(each.facts.phash for each in kept),
        dropped=dropped,
        details=details,
        naming={name: naming_key(plan.naming, name) for name in sorted(named)},
        templates={
            str(name_hash(template)): [template, name, slug]
            for template, name, slug in {each.template: each[2:5] for each in captions}.values()
        },
        sources={str(name_hash(source)): source for source in sorted({c.source for c in captions})},
    )
    write_block(
        open_work(task.work), task.key, head, rows, lines, log.packed(),
        signatures([each.words for each in kept], rows["template"]),
        hashed([each.facts.phash for each in kept]) if by_pictures and head.pictures else None,
    )  # fmt: skip
    return Filtered(head.memes, head.rows)


class Kept(NamedTuple):
    """A caption that passed the steps, its words and place, and its facts, with the caption before the steps."""

    caption: Caption
    words: str
    place: Place
    facts: Facts


def near_settings(settings: Dataset) -> tuple[bool, bool]:
    """Return True for each enabled search for near-duplicates: by words, by pictures."""
    wanted = DUPLICATES in settings.steps
    return wanted and settings.near_text is not None, wanted and settings.near_image is not None


@lru_cache(maxsize=1)
def prepare(settings: Dataset) -> tuple[list[Step], Splitter]:
    """Return the steps and the splitter; cached per process.

    Raises:
        ConfigError: an invalid setting.
    """
    return build_steps(settings), Splitter(settings.split)


def _named(settings: Dataset, steps: list[Step]) -> list[tuple[str, Step]]:
    return list(zip((name for name in settings.steps if name != DUPLICATES), steps, strict=True))


def _placed(facts: Facts, caption: Caption, words: str, splitter: Splitter, log: DropLog) -> Kept | Drop:
    place = splitter.place(caption.template, caption.boxes, words, facts.posted)
    if place.split is None:
        drop = Drop("no date")
        log.add(caption, drop, SPLIT)
        return drop
    return Kept(caption, words, place, facts)


def _rows(kept: list[Kept]) -> tuple[list[Kept], Array, bytes]:
    """Return captions sorted by split and order, their rows and their lines."""
    orders = np.frombuffer(b"".join([each.place.order for each in kept]), ">u8").reshape(-1, 2)
    splits = np.array([_NUMBERS[each.place.split or "train"] for each in kept], np.uint32)
    at = np.lexsort((orders[:, 1], orders[:, 0], splits))
    kept = [kept[each] for each in at.tolist()]
    lines = [orjson.dumps((*each.caption[:_IN_LINE], *_integers(each.facts))) for each in kept]
    rows = np.empty(len(kept), ROW)
    rows["order"], rows["low"], rows["split"] = orders[at, 0], orders[at, 1], splits[at]
    rows["posted"] = [each.facts.posted for each in kept]
    hashed_name = cache(name_hash)
    rows["template"] = [hashed_name(each.caption.template) for each in kept]
    rows["source"] = [hashed_name(each.caption.source) for each in kept]
    rows["row"] = np.arange(len(kept))
    rows["check"] = name_hashes(lines)
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    rows["length"], rows["start"] = lengths, np.cumsum(lengths) - lengths
    return kept, rows, b"".join(lines)


def _integers(facts: Facts) -> tuple[int | None, int | None, int | None]:
    return facts.score, facts.views, None if facts.posted == UNKNOWN_TIME else facts.posted // _SECOND


def read_record(line: bytes, split: Split, separator: str) -> tuple[DatasetRecord, str]:
    """Return the record in a line of a block, without the bytes of its picture, and the slug of its template."""
    values: list[Any] = orjson.loads(line)
    key, source, template, name, slug, boxes, image_key, score, views, posted_at = values
    text = "".join([box + separator for box in boxes])
    return DatasetRecord(
        key, template, name, source, split, text, tuple(boxes), image_key, None, score, views, posted_at
    ), slug


def read_line(line: bytes) -> Caption:
    """Return the caption in a line of a block, up to its image key: no step needs more any longer."""
    values: list[Any] = orjson.loads(line)[:_IN_LINE]
    values[5] = tuple(values[5])
    return Caption(*values)


def hashed(hashes: list[bytes]) -> Pairs:
    """Return keys shared by nearly equal pictures: 13 segments of 19 or 20 bits of their hashes."""
    there = np.array([bool(each) for each in hashes])
    whole = np.frombuffer(b"".join([each or bytes(HASH_BYTES) for each in hashes]), np.uint8).reshape(-1, HASH_BYTES)
    bits = np.unpackbits(whole, axis=1)
    keys = []
    for number, segment in enumerate(np.array_split(bits, SEGMENTS, axis=1)):
        value = segment.astype(np.uint64) @ (np.uint64(1) << np.arange(segment.shape[1], dtype=np.uint64))
        # Workers partition keys by their first bits, so spread them. 0 means no picture.
        mixed = (value << np.uint64(8) | np.uint64(number + 1)) * MIX
        keys.append(np.where(there, mixed, np.uint64(0)))
    return Pairs(np.stack(keys), np.ascontiguousarray(whole).view("<u8").reshape(-1, 4))
