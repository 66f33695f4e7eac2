"""A series read back in bounded memory: however long the crawl, a few hundred samples tell its story."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memeloom.scrapers.report.series import Sample, read_lines, sample_of

POINTS = 500


class Thinned:
    """Keeps at most `most` of the samples that it is given, evenly chosen, and the last one.

    Totals lose nothing by that: what happened between two kept samples is their difference.
    """

    def __init__(self, most: int = POINTS) -> None:
        self._most = most
        self._kept: list[Sample] = []
        self._stride = 1
        self._given = 0
        self._last: Sample | None = None

    def add(self, sample: Sample) -> None:
        """Take one more in; half of what is kept is let go when it gets too much."""
        if self._given % self._stride == 0:
            if len(self._kept) >= self._most - 1:
                self._kept = self._kept[::2]
                self._stride *= 2
            if self._given % self._stride == 0:
                self._kept.append(sample)
        self._given += 1
        self._last = sample

    def samples(self) -> list[Sample]:
        """What is kept, in order."""
        if self._last is not None and self._kept[-1] is not self._last:
            return [*self._kept, self._last]
        return list(self._kept)


@dataclass(frozen=True, slots=True)
class Story:
    """A crawl, told.

    samples: at most `POINTS`. peaks: the largest ``rss_bytes`` and ``queue`` of all lines.
    end: how it ended; None for a crawl that was killed.
    """

    head: Mapping[str, Any]
    samples: list[Sample]
    peaks: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, Any] | None = None

    @property
    def last(self) -> Sample:
        """The totals."""
        return self.samples[-1] if self.samples else Sample(0.0)


def read_story(path: Path, most: int = POINTS) -> Story:
    """The story that the series at `path` tells. Raises OSError."""
    return tell(read_lines(path), most)


def tell(lines: Iterable[Mapping[str, Any]], most: int = POINTS) -> Story:
    """The story that lines tell; those that hold no sample are passed over."""
    head: Mapping[str, Any] = {}
    end: Mapping[str, Any] | None = None
    thinned, rss, queue = Thinned(most), 0, 0
    for line in lines:
        if "series" in line:
            head = line
            continue
        try:
            sample = sample_of(line)
        except (KeyError, TypeError, AttributeError):
            continue
        thinned.add(sample)
        rss = max(rss, sample.vitals.rss_bytes)
        queue = max(queue, sum(sample.vitals.queue.values()))
        end = line.get("end", end)
    return Story(head, thinned.samples(), {"rss_bytes": rss, "queue": queue}, end)
