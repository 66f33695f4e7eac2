"""One shard: a split's captions in one range of the order, in a file, with what was counted: the work of one worker."""

import hashlib
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memeloom.catalog.stores import open_blobs
from memeloom.configs.schema import Store
from memeloom.dataset.flow.block import Array, open_block
from memeloom.dataset.flow.caps import LIMIT
from memeloom.dataset.flow.choose import CHOSEN
from memeloom.dataset.flow.filter import Row, read_line
from memeloom.dataset.flow.work import WorkFolder, checksum_of, digest_of, read_plan
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import file_sha256
from memeloom.dataset.pictures import with_pictures
from memeloom.dataset.schema import SPLITS, DatasetRecord, Split
from memeloom.dataset.tally import WORDS, ShardTally

# Captions whose lines are in memory at once.
_AT_ONCE = 32_768
_ALL = 2**64


class WriteShard(NamedTuple):
    """The shard `number` of `shards` (a power of two) of `split`. chosen, blocks, limits: where its captions are.

    store: where their pictures are; None if the dataset takes none.
    """

    work: Path
    plan: str
    blocks: Sequence[str]
    chosen: Sequence[str]
    limits: str
    split: Split
    number: int
    shards: int
    file: str
    store: Store | None


class Written(NamedTuple):
    """A finished shard. folder: its name among the shards of the work folder. new: whether it had to be written."""

    task: WriteShard
    folder: str
    records: int
    new: bool


def write_shard(task: WriteShard) -> Written:
    """Write the shard and its tally, unless the same one is there already.

    Raises:
        StoreError: pictures cannot be had.
        MemeloomError: the disk is full, or the like.
    """
    plan = read_plan(task.work, task.plan)
    settings = plan.settings
    work = WorkFolder(task.work)
    limits = np.fromfile(work.path(task.limits), LIMIT)
    deciding = {"split": task.split, "file": task.file, **settings.model_dump(
        mode="json", include={"format", "compression", "separator", "images"})}  # fmt: skip
    content = hashlib.blake2b(digest_of(plan.digest, deciding).encode(), digest_size=16)
    for rows in _rows(task, work, limits):
        content.update(rows["check"].tobytes())
    folder = content.hexdigest()
    there = work.read(f"shards/{folder}/tally.json")
    target = work.path(f"shards/{folder}")
    if there is not None and _whole(target, task.file, there):
        return Written(task, folder, there["records"], new=False)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    tally = ShardTally(target)
    dropped: Counter[tuple[str, str]] = Counter()
    format_ = FORMATS[settings.format]
    file = format_.create(target / task.file, settings.compression, pictures=settings.images != "none")
    try:
        for row, picture in _with_pictures(task, work, limits, dropped):
            record = DatasetRecord(
                id=row.id,
                template=row.template,
                template_name=row.template_name,
                source=row.source,
                split=task.split,
                text="".join([box + settings.separator for box in row.boxes]),
                boxes=row.boxes,
                image_key=row.image_key,
                image=picture,
            )
            file.write(record)
            tally.add(record, row.template_slug)
        file.close()
    except BaseException:
        file.abandon()
        raise
    told = {"records": file.records, "bytes": file.bytes, "sha256": file.sha256, **tally.close(),
            "words": checksum_of(target / WORDS),
            "dropped": [[reason, source, n] for (reason, source), n in dropped.items()]}  # fmt: skip
    work.write(f"shards/{folder}/tally.json", told)
    return Written(task, folder, file.records, new=True)


def _whole(folder: Path, file: str, told: dict[str, Any]) -> bool:
    """Whether shard and words are as they were written. One that lacks pictures is written again: they may be there."""
    path = folder / file
    try:
        same = path.stat().st_size == told["bytes"] and file_sha256(path) == told["sha256"]
    except OSError:
        return False
    return same and checksum_of(folder / WORDS) == tuple(told["words"]) and not told["dropped"]


def _rows(task: WriteShard, work: WorkFolder, limits: Array) -> Iterator[Array]:
    """The captions of the shard in order, some at once."""
    split = SPLITS.index(task.split)
    first, last = (_ALL * number // task.shards for number in (task.number, task.number + 1))
    parts = len(task.chosen)
    begin, end = task.number * parts // task.shards, -(-(task.number + 1) * parts // task.shards)
    for name in task.chosen[begin:end]:
        with work.rows(name).open("rb", buffering=0) as stream:
            while len(rows := np.fromfile(stream, CHOSEN, _AT_ONCE)):
                inside = (rows["split"] == split) & (rows["order"] >= first) & (rows["order"] <= last - 1)
                rows = rows[inside]
                if len(rows):
                    yield rows[_within(rows, limits)]


def _within(rows: Array, limits: Array) -> Array:
    """Which of them lie within the limit of their template; templates that are not taken have none."""
    if not len(limits):
        return np.zeros(len(rows), np.bool_)
    at = np.minimum(np.searchsorted(limits["template"], rows["template"]), len(limits) - 1)
    known = limits["template"][at] == rows["template"]
    last = limits[at]
    at_last = (rows["order"] == last["last"]) & (rows["copy"] <= last["copy"])
    within: Array = known & ((rows["order"] < last["last"]) | at_last)
    return within


def _with_pictures(
    task: WriteShard, work: WorkFolder, limits: Array, dropped: Counter[tuple[str, str]]
) -> Iterator[tuple[Row, bytes | None]]:
    rows = _read(task, work, limits)
    if task.store is None:
        yield from ((row, None) for row in rows)
        return
    with closing(open_blobs(task.store)) as blobs:
        yield from with_pictures(rows, blobs, dropped)


def _read(task: WriteShard, work: WorkFolder, limits: Array) -> Iterator[Row]:
    """The captions of the shard in order."""
    for rows in _rows(task, work, limits):
        lines = [b""] * len(rows)
        by_block = np.argsort(rows["block"], kind="stable")
        ends = np.searchsorted(rows["block"][by_block], np.arange(len(task.blocks) + 1)).tolist()
        for number, (begin, end) in enumerate(itertools.pairwise(ends)):
            if begin < end:
                mine = by_block[begin:end]
                with open_block(work.block(task.blocks[number])) as block:
                    for at, line in zip(
                        mine.tolist(), block.lines(rows["start"][mine], rows["length"][mine]), strict=True
                    ):
                        lines[at] = line
        yield from map(read_line, lines)
