"""What a build counts on its way: captions that were dropped, and copies."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from memeloom.dataset.flow.block import Head
from memeloom.dataset.flow.caps import Caps
from memeloom.dataset.flow.near import SAMPLES

FULL = "template is full"


class Drops:
    """Memes that were dropped, by reason and source. rows: captions that passed the steps; pictures: if any has one."""

    def __init__(self) -> None:
        self.by_reason: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.details: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.rows = 0
        self.pictures = False
        self._sources: dict[int, str] = {}

    def add_head(self, head: Head) -> None:
        """What a block dropped."""
        for reason, sources in head.dropped.items():
            self.by_reason[reason].update(sources)
        for reason, entries in head.details.items():
            self.details[reason].update(entries)
        self._sources.update((int(number), source) for number, source in head.sources.items())
        self.rows += head.rows
        self.pictures = self.pictures or head.pictures

    def add_hashed(self, dropped: Mapping[str, Mapping[str, int]]) -> None:
        """What is named by the hash of its source. Blocks come first."""
        for reason, sources in dropped.items():
            for source, count in sources.items():
                self._add(reason, self._sources[int(source)], count)

    def add_capped(self, caps: Caps, written: Mapping[str, int], missing: Mapping[tuple[str, str], int]) -> None:
        """What the caps left out.

        written: records by source. missing: captions without pictures, by reason and source.
        """
        self.add_hashed({
            reason: {str(source): n for source, n in sources.items()} for reason, sources in caps.dropped.items()
        })  # fmt: skip
        gone: Counter[str] = Counter()
        for (reason, source), count in missing.items():
            self._add(reason, source, count)
            gone[source] += count
        for number, count in caps.sources.items():
            source = self._sources[number]
            self._add(FULL, source, count - written.get(source, 0) - gone[source])

    def totals(self) -> dict[str, int]:
        """Memes by reason, most first."""
        totals = {reason: sources.total() for reason, sources in self.by_reason.items()}
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def line(self) -> str:
        """All reasons in one line."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.totals().items())

    def _add(self, reason: str, source: str, count: int) -> None:
        if count:
            self.by_reason[reason][source] += count


class Copies:
    """Groups of equal captions by their size, and pairs of those that were nearly equal, to show."""

    def __init__(self) -> None:
        self.clusters: Counter[int] = Counter()
        self._samples: set[tuple[int, float, str, str]] = set()

    def add_clusters(self, clusters: Mapping[str, int]) -> None:
        """Groups of one range of the order."""
        self.clusters.update({int(size): number for size, number in clusters.items()})

    def add_samples(self, result: Mapping[str, Any]) -> None:
        """Pairs that one worker found."""
        self._samples.update(tuple(sample) for sample in result["samples"])
        self._samples = set(sorted(self._samples)[:SAMPLES])

    def samples(self, count: int) -> list[tuple[float, str, str]]:
        """The first pairs in the order of the dataset, `SAMPLES` at most: how much alike they are, and their words."""
        return [(likeness, one, other) for _, likeness, one, other in sorted(self._samples)[:count]]
