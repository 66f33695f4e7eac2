"""The time series of a crawl: a line of JSON each time, appended at once, so that a crawl that is killed leaves it.

The first line is the head, each further one holds totals until then, and the last one of a crawl that came to
its end says how. Lines come every second at first and rarer as the crawl grows old, so that a week fits in a few MB.
"""

import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import HostNow
from memeloom.scrapers.report.vitals import Vitals

_LEAST_SECONDS = 1.0
_MOST_SECONDS = 60.0
_SHARE_OF_AGE = 1 / 500
_MOST_REASONS = 40
RATED = ("pages", "memes", "images")
_RATE_OVER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """How far a crawl was `seconds` after its start: counts and reasons are totals until then."""

    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    vitals: Vitals = field(default_factory=Vitals)


class Rates:
    """Units a second of late, from totals."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Counter[str]]] = deque()

    def of(self, sample: Sample) -> dict[str, float]:
        """The rates at the time of `sample`, which is later than the one before."""
        totals = Counter({name: sample.counts.get(name, 0) for name in RATED})
        totals["bytes"] = sample.vitals.received_bytes
        self._seen.append((sample.seconds, totals))
        while len(self._seen) > 2 and self._seen[1][0] <= sample.seconds - _RATE_OVER_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        passed = sample.seconds - then
        return {name: round((n - before[name]) / passed, 2) if passed > 0 else 0.0 for name, n in totals.items()}


class SeriesFile:
    """Writes a series. Each line reaches the file before the call returns."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self._path = path
        self._due = 0.0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error
        self._write({"series": "memeloom crawl", "version": 1, **head})

    def add(self, sample: Sample, rates: Mapping[str, float], end: Mapping[str, Any] | None = None) -> None:
        """Write a line if one is due, or if it is the last, which says how the crawl ended. Raises MemeloomError."""
        if end is None and sample.seconds < self._due:
            return
        self._due = sample.seconds + min(_MOST_SECONDS, max(_LEAST_SECONDS, sample.seconds * _SHARE_OF_AGE))
        self._write(_line(sample, rates) | ({"end": end} if end is not None else {}))

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            os.write(self._file, (json.dumps(line, separators=(",", ":")) + "\n").encode())
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> MemeloomError:
        return MemeloomError(f"cannot write {self._path}: {error.strerror}")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a series, one at a time; what a power cut has left of one is passed over. Raises OSError."""
    with path.open("rb") as stream:
        for line in stream:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def sample_of(line: Mapping[str, Any]) -> Sample:
    """The sample that a line holds. Raises KeyError, TypeError: it holds none."""
    hosts = tuple(
        HostNow(name, facts["state"], facts["latency_s"], facts["answers"], facts["failures"], facts["bytes"])
        for name, facts in line["hosts"].items()
    )
    vitals = Vitals(line["queue"], hosts, line["host_states"], line["received_bytes"], line["rss_bytes"])
    return Sample(line["seconds"], line["counts"], line["reasons"], vitals)


def _line(sample: Sample, rates: Mapping[str, float]) -> dict[str, Any]:
    vitals = sample.vitals
    return {
        "seconds": round(sample.seconds, 2),
        "per_second": dict(rates),
        "counts": dict(sample.counts),
        "reasons": dict(Counter(sample.reasons).most_common(_MOST_REASONS)),
        "queue": vitals.queue,
        "received_bytes": vitals.received_bytes,
        "rss_bytes": vitals.rss_bytes,
        "host_states": vitals.states,
        "hosts": {
            host.name: {
                "state": host.state,
                "latency_s": host.latency_seconds,
                "answers": host.answers,
                "failures": host.failures,
                "bytes": host.received_bytes,
            }
            for host in vitals.hosts
        },
    }
