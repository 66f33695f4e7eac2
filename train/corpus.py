"""The captions of a split in memory, end to end, 3 bytes a character."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.formats.registry import check_readable
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import Split
from memeloom.dataset.texts import Texts, texts_of
from memeloom.train.characters import MAX_BOXES, Alphabet


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

    def lengths_of(self, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """Characters of the captions `rows`, without looking at all of them."""
        lengths: NDArray[np.int64] = self.starts[1:][rows] - self.starts[:-1][rows]
        return lengths

    def texts(self, alphabet: Alphabet) -> Iterator[str]:
        """What the captions say, every box followed by the separator."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield alphabet.decode(self.characters[first:last].tolist())


class _Part(NamedTuple):
    """Some captions: the fields of `Captions`, lengths instead of starts, and -1 where a template is not known."""

    characters: NDArray[np.uint16]
    boxes: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    templates: NDArray[np.int32]


def read_captions(folder: Path, manifest: Manifest, split: Split, alphabet: Alphabet) -> Captions:
    """Read all captions of `split` from the dataset in `folder`, of whichever format.

    Characters that the alphabet lacks are left out.

    Raises:
        DamagedRecords: a shard is damaged; the line names file and place.
        ConfigError: a package that the format needs is missing.
        MemeloomError: the split is empty, or not what the manifest says.
    """
    check_readable(manifest.format)
    rows = {template.id: row for row, template in enumerate(manifest.templates)}
    parts = [_encoded(texts, rows, alphabet, manifest.separator) for texts in texts_of(folder, manifest, split)]
    records = sum(len(part.lengths) for part in parts)
    if records != manifest.splits[split] and manifest.format != "dummy":
        raise MemeloomError(
            f"{folder}: {records:,} {split} captions, expected {manifest.splits[split]:,}; build the dataset again"
        )
    if not records:
        raise MemeloomError(
            f"{folder}: no {split} captions; collect more memes, or change dataset.split, and build it again"
        )
    whole = _Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if whole.templates.min() < 0:
        raise MemeloomError(f"{folder}: captions on a template that the manifest lacks; build the dataset again")
    starts = np.concatenate([[0], np.cumsum(whole.lengths)])
    prefixes = alphabet.prefixes(list(rows), int(whole.boxes.max(initial=0)) + 1)
    return Captions(whole.characters, whole.boxes, starts, whole.templates, prefixes)


def _encoded(texts: Texts, rows: Mapping[str, int], alphabet: Alphabet, separator: str) -> _Part:
    characters, lengths = alphabet.encode(texts.text, unknown=0), texts.lengths
    known = characters > 0
    if not known.all():
        caption = np.repeat(np.arange(len(lengths)), lengths)
        characters, lengths = characters[known], np.bincount(caption[known], minlength=len(lengths))
    boxes = _box_indices(characters, lengths, int(alphabet.encode(separator)[0]))
    templates = np.fromiter(map(rows.get, texts.templates, repeat(-1)), np.int32, len(lengths))
    return _Part(characters, boxes, lengths, templates)


def _box_indices(characters: NDArray[np.uint16], lengths: NDArray[np.int64], separator: int) -> NDArray[np.uint8]:
    """How many separators stand before each character in its caption: the index of its text box."""
    before = np.zeros(len(characters) + 1, np.int32)
    np.cumsum(characters == separator, out=before[1:])
    boxes = before[:-1] - np.repeat(before[np.cumsum(lengths) - lengths], lengths)
    capped: NDArray[np.uint8] = np.minimum(boxes, MAX_BOXES - 1).astype(np.uint8)
    return capped
