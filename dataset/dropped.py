"""The dropped captions beside a dataset: JSON lines with the reason of each, written with `dataset.keep_dropped`.

Any reader of JSON lines reads them: ``pandas.read_json("dropped-00000-of-00001.jsonl.gz", lines=True)``.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.dataset.formats.packed import BrokenStream, DamagedRecords, Unpacked
from memeloom.dataset.manifest import Manifest

# Steps of a build that are not in `dataset.steps`.
TEMPLATE: Final = "template"
PICTURE: Final = "picture"
SPLIT: Final = "split"
LIMITS: Final = "limits"


class DroppedRecord(NamedTuple):
    """A dropped caption.

    Attributes:
        template, template_name: empty if the meme has no template.
        reason: as the manifest counts it. detail: the matched entry of a list, or empty.
        step: the step that dropped it, one of `dataset.steps`, or `template`, `picture`, `split` or `limits`.
        text, boxes: as that step saw them, after the earlier ones; `text` is every box followed by the separator.
        like, like_boxes: id and boxes of the caption that a duplicate or near copy resembles; otherwise empty, also in
            files of older versions, which lack them.
    """

    id: str
    source: str
    template: str
    template_name: str
    reason: str
    detail: str
    step: str
    text: str
    boxes: tuple[str, ...]
    like: str = ""
    like_boxes: tuple[str, ...] = ()


# Keys of a line, now and in files of older versions.
_KEYS: Final = (DroppedRecord._fields, DroppedRecord._fields[: -len(DroppedRecord._field_defaults)])
_MAX_LINE_BYTES = 64 * 2**20
_CHUNK = 2**18
_NEAREST = 3


def read_dropped(folder: Path, manifest: Manifest) -> Iterator[DroppedRecord]:
    """Yield the dropped captions of a dataset, in random order; none if they were not kept.

    Raises:
        DamagedRecords: a file is truncated or altered, or a line is not a dropped caption; has its place.
        MemeloomError: a file cannot be read.
    """
    for file in manifest.dropped_files:
        yield from read_dropped_file(folder / file.name)


def read_dropped_file(path: Path) -> Iterator[DroppedRecord]:
    """Yield the dropped captions in one file. Raises as `read_dropped`."""
    source, rest, offset, number = Unpacked(path), b"", 0, 1
    while True:
        try:
            wanted = len(rest) + _CHUNK
            buffer = source.more(rest, wanted)
        except BrokenStream as broken:
            raise DamagedRecords(path, str(broken), offset=offset, record=number) from broken
        *lines, rest = buffer.split(b"\n")
        for line in lines:
            record = _parsed(line)
            if record is None:
                raise DamagedRecords(path, "not a dropped caption", offset=offset, record=number)
            yield record
            offset += len(line) + 1
            number += 1
        if len(buffer) < wanted:
            break
        if len(rest) > _MAX_LINE_BYTES:
            raise DamagedRecords(path, "line too long", offset=offset, record=number)
    if rest:
        raise DamagedRecords(path, "line cut off", offset=offset, record=number)


def _parsed(line: bytes) -> DroppedRecord | None:
    try:
        facts: Any = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(facts, dict) or tuple(facts) not in _KEYS:
        return None
    facts = DroppedRecord._field_defaults | facts
    boxes, like_boxes = facts["boxes"], facts["like_boxes"]
    if not isinstance(boxes, list) or not isinstance(like_boxes, (list, tuple)):
        return None
    texts = [*(value for name, value in facts.items() if not name.endswith("boxes")), *boxes, *like_boxes]
    if not all(isinstance(text, str) for text in texts):
        return None
    return DroppedRecord(**{**facts, "boxes": tuple(boxes), "like_boxes": tuple(like_boxes)})


class DroppedSample(NamedTuple):
    """Number of dropped captions by reason, and a sample of each reason asked for."""

    counts: Mapping[str, int]
    samples: Mapping[str, list[DroppedRecord]]

    def as_json(self) -> dict[str, Any]:
        """Return counts and samples for JSON."""
        samples = {reason: [record._asdict() for record in records] for reason, records in self.samples.items()}
        return {"dropped": dict(self.counts), "samples": samples}


def sample_dropped(folder: Path, manifest: Manifest, reason: str | None, count: int, seed: int = 0) -> DroppedSample:
    """Draw `count` dropped captions of `reason`, or of every reason. The same seed draws the same captions.

    Reads all of them, in bounded memory.

    Raises:
        ConfigError: no meme was dropped for `reason`; the message names the nearest reasons.
        MemeloomError: the dataset was built without dropped captions.
        DamagedRecords: a file is damaged.
    """
    if not manifest.keeps_dropped:
        raise MemeloomError(
            f"{folder}: dropped captions were not kept; build the dataset with `memeloom build-dataset --keep-dropped`"
        )
    if reason is not None and reason not in manifest.dropped:
        raise ConfigError(_unknown(reason, list(manifest.dropped)))
    reasons = list(manifest.dropped) if reason is None else [reason]
    drawn: defaultdict[str, list[tuple[bytes, DroppedRecord]]] = defaultdict(list)
    for record in read_dropped(folder, manifest):
        if reason in (None, record.reason):
            here = drawn[record.reason]
            here.append((_lot(record.id, seed), record))
            if len(here) >= 2 * count + 100:
                here[:] = sorted(here)[:count]
    samples = {name: [record for _, record in sorted(drawn[name])[:count]] for name in reasons}
    return DroppedSample(manifest.dropped, samples)


def _lot(meme: str, seed: int) -> bytes:
    """Return what decides whether a caption is drawn: those with the lowest are."""
    return hashlib.blake2b(f"{seed}\0{meme}".encode(), digest_size=8).digest()


def _unknown(reason: str, known: list[str]) -> str:
    if not known:
        return f"no caption was dropped for {reason!r}: none was dropped at all"
    within = [name for name in known if reason.casefold() in name]
    near = (within or get_close_matches(reason.casefold(), known, n=_NEAREST, cutoff=0.55))[:_NEAREST]
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"reasons are {', '.join(map(repr, known))}"
    return f"no caption was dropped for {reason!r}; {hint}"
