"""The captions of a split in memory, end to end, 3 bytes a character."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from configs.errors import MemeloomError
from dataset.formats.registry import FORMATS, check_readable
from dataset.manifest import Manifest
from dataset.schema import DatasetRecord, Split
from train.characters import MAX_BOXES, Alphabet

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of a split, end to end.

    characters: numbers, uint16 (characters,). boxes: text box that each stands in, uint8 (characters,).
    starts: where each caption begins, and where the last ends, int64 (captions + 1,).
    templates: row of each caption's template in `prefixes`, and in the manifest, int32 (captions,).
    prefixes: numbers before the text, uint16 (templates, boxes, PREFIX_WIDTH).
    """

    characters: NDArray[np.uint16]
    boxes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    templates: NDArray[np.int32]
    prefixes: NDArray[np.uint16]

    def __len__(self) -> int:
        """How many captions."""
        return len(self.templates)

    @property
    def examples(self) -> int:
        """How many examples they make: one a character."""
        return len(self.characters)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Characters of each caption, separators counted, (captions,)."""
        return np.diff(self.starts)

    def texts(self, alphabet: Alphabet) -> Iterator[str]:
        """What the captions say, every box followed by the separator."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield alphabet.decode(self.characters[first:last].tolist())


def read_captions(folder: Path, manifest: Manifest, split: Split, alphabet: Alphabet) -> Captions:
    """Read all captions of `split` from the dataset in `folder`, of whichever format.

    Raises:
        DamagedRecords: a shard is damaged; the line names file and place.
        ConfigError: a package that the format needs is missing.
        MemeloomError: the split is empty, or not what the manifest says.
    """
    check_readable(manifest.format)
    ids = {template.id: row for row, template in enumerate(manifest.templates)}
    parts = [_encoded(part, ids, alphabet) for part in _some_at_once(_records(folder, manifest, split))]
    records = sum(len(lengths) for _, lengths, _ in parts)
    if records != manifest.splits[split] and manifest.format != "dummy":
        raise MemeloomError(
            f"{folder}: {records:,} {split} captions, expected {manifest.splits[split]:,}; build the dataset again"
        )
    if not records:
        raise MemeloomError(
            f"{folder}: no {split} captions; collect more memes, or change dataset.split, and build it again"
        )
    characters, lengths, templates = (np.concatenate(column) for column in zip(*parts, strict=True))
    if templates.min() < 0:
        raise MemeloomError(f"{folder}: captions on a template that the manifest lacks; build the dataset again")
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    boxes = _box_indices(characters, starts, int(alphabet.encode(manifest.separator)[0]))
    return Captions(characters, boxes, starts, templates, alphabet.prefixes(list(ids), int(boxes.max()) + 1))


def _records(folder: Path, manifest: Manifest, split: Split) -> Iterator[DatasetRecord]:
    read = FORMATS[manifest.format].read
    for path in manifest.paths(folder, split):
        yield from read(path)


def _some_at_once(records: Iterator[DatasetRecord]) -> Iterator[list[DatasetRecord]]:
    while part := list(islice(records, _AT_ONCE)):
        yield part


def _encoded(
    records: list[DatasetRecord], ids: dict[str, int], alphabet: Alphabet
) -> tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int32]]:
    """Numbers of all characters, characters a caption, row of its template (-1: none).

    Characters that the alphabet lacks are left out.
    """
    lengths = np.array([len(record.text) for record in records], np.int64)
    numbers = alphabet.encode("".join([record.text for record in records]), unknown=0)
    known = numbers > 0
    caption = np.repeat(np.arange(len(records)), lengths)
    templates = np.array([ids.get(record.template, -1) for record in records], np.int32)
    return numbers[known], np.bincount(caption[known], minlength=len(records)), templates


def _box_indices(characters: NDArray[np.uint16], starts: NDArray[np.int64], separator: int) -> NDArray[np.uint8]:
    """How many separators stand before each character in its caption: the index of its text box."""
    before = np.concatenate([[0], np.cumsum(characters == separator, dtype=np.int64)])
    boxes = before[:-1] - np.repeat(before[starts[:-1]], np.diff(starts))
    capped: NDArray[np.uint8] = np.minimum(boxes, MAX_BOXES - 1).astype(np.uint8)
    return capped
