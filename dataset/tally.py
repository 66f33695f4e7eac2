"""What is counted while a shard is written: the numbers of manifest, vocabulary and card, later added up."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from memeloom.dataset.schema import SPLITS, DatasetRecord, Split
from memeloom.dataset.words import WordTally, split_words

WORDS = "words.txt"
_SAMPLES = 12
_AT_ONCE = 2000


class ShardTally:
    """Counts the records of one shard; memory grows with its templates and characters. folder: takes `words.txt`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sources: Counter[str] = Counter()
        self._lengths: Counter[int] = Counter()
        self._templates: dict[str, tuple[str, str]] = {}
        self._boxes: Counter[tuple[str, int]] = Counter()
        self._samples: list[DatasetRecord] = []
        self._characters: Counter[str] = Counter()
        self._records: list[DatasetRecord] = []
        self._words = WordTally(folder / "runs")

    def add(self, record: DatasetRecord, slug: str) -> None:
        """Count one record; `slug` is its template's."""
        if record.template not in self._templates:
            self._templates[record.template] = record.template_name, slug
        self._records.append(record if record.image is None else record._replace(image=None))
        if len(self._records) >= _AT_ONCE:
            self._count()

    def close(self) -> dict[str, Any]:
        """What was counted, as JSON; the words are in their file."""
        self._count()
        self._words.write(self._folder / WORDS)
        boxes: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (template, number), count in self._boxes.items():
            boxes[template][str(number)] = count
        return {
            "sources": self._sources,
            "lengths": {str(length): count for length, count in self._lengths.items()},
            "templates": {name: [*names, boxes[name]] for name, names in self._templates.items()},
            "samples": [list(record) for record in self._samples],
            "characters": self._characters,
        }

    def _count(self) -> None:
        """Count what waits, all at once: `Counter` is quick with many."""
        records = self._records
        texts = [record.text for record in records]
        self._sources.update([record.source for record in records])
        self._boxes.update([(record.template, len(record.boxes)) for record in records])
        self._lengths.update([len(record.text) - len(record.boxes) for record in records])
        self._characters.update("".join(texts))
        self._words.add(split_words("\n".join(texts)))
        self._samples += records[: _SAMPLES - len(self._samples)]
        records.clear()


@dataclass
class TemplateTally:
    """What the captions say about one template: its name, and how many have how many boxes."""

    name: str
    slug: str
    boxes: Counter[int] = field(default_factory=Counter)

    @property
    def captions(self) -> int:
        """How many captions it has."""
        return self.boxes.total()


@dataclass
class Tally:
    """The tallies of all shards together.

    lengths: records by characters of their boxes. samples: the first records for training, which stand in random order.
    """

    splits: dict[Split, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    sources: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    templates: dict[str, TemplateTally] = field(default_factory=dict)
    characters: Counter[str] = field(default_factory=Counter)
    samples: list[DatasetRecord] = field(default_factory=list)

    def add(self, split: Split, told: Mapping[str, Any]) -> Self:
        """Add what `ShardTally.close` told of a shard of `split`; shards come in order."""
        self.splits[split] += told["records"]
        self.sources.update(told["sources"])
        self.characters.update(told["characters"])
        self.lengths.update(_numbered(told["lengths"].items()))
        for template, (name, slug, boxes) in told["templates"].items():
            self.templates.setdefault(template, TemplateTally(name, slug)).boxes.update(_numbered(boxes.items()))
        if split == "train":
            missing = _SAMPLES - len(self.samples)
            self.samples += [DatasetRecord._make(s)._replace(boxes=tuple(s[6])) for s in told["samples"][:missing]]
        return self


def _numbered(counts: Iterable[tuple[str, int]]) -> dict[int, int]:
    return {int(number): count for number, count in counts}
