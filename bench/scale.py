"""What a billion memes take, simulated: `python -m bench.scale`; docs/scale.md plans with it.

Three models of what cannot be run here, each run small beside the real thing, with the error of the model:

- `frontier`: crawling processes lease requests of hosts that each have a delay. Events, until nothing is left.
- `leases`: workers lease batches and crash; their leases expire and come back. Events, with a clock of its own.
- `builder`: bytes and processor time of a dataset's blocks and searches, linear in the captions but for the search of
  held-out captions, which reads all blocks once for each index of held-out captions.
"""

import argparse
import heapq
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.rows import Row, print_parts
from bench.scale_real import Build, fitted, leases_in_a_catalog, measured_build, seconds_of_frontier
from memeloom.configs.load import load_config
from memeloom.dataset.flow.copies import HELD_OUT_AT_ONCE

_BILLION = 1_000_000_000
_TOLERANCE = 0.25
# Of `make bench-frontier` at ten million requests, and of `make bench-crawl`: docs/benchmarks.md.
_REDIS_BYTES, _REDIS_SECONDS = 774, 40e-6
_PICTURE_SECONDS = 2.7e-3
_PARTS = 1024  # most ranges of hashes: `dataset.flow.work.power_of_two`


@dataclass(frozen=True)
class Crawl:
    """A crawl of hosts: the requests of each, its delay and latency in seconds; a process works on `slots` at a time.

    busy: processor seconds of a request, one at a time in each process.
    """

    hosts: Sequence[int]
    delay: float
    latency: float
    processes: int
    slots: int
    busy: float


def simulated_crawl(crawl: Crawl) -> float:
    """Return the seconds until no request is left. A host is asked again after its delay, never while it is asked."""
    due = [(0.0, host) for host in range(len(crawl.hosts))]
    left = list(crawl.hosts)
    slots = [(0.0, number % crawl.processes) for number in range(crawl.processes * crawl.slots)]
    processors = [0.0] * crawl.processes
    heapq.heapify(slots)
    end = 0.0
    while due:
        at, host = heapq.heappop(due)
        free, process = heapq.heappop(slots)
        begin = max(at, free)
        processors[process] = max(processors[process], begin) + crawl.busy
        done = max(begin + crawl.latency, processors[process])
        heapq.heappush(slots, (done, process))
        left[host] -= 1
        if left[host]:
            heapq.heappush(due, (begin + max(crawl.delay, crawl.latency), host))
        end = max(end, done)
    return end


def bound_of_crawl(crawl: Crawl) -> float:
    """Return the seconds that no crawl can do without: its largest host, its slots, its processors."""
    requests = sum(crawl.hosts)
    return max(
        (max(crawl.hosts) - 1) * max(crawl.delay, crawl.latency) + crawl.latency,
        requests * crawl.latency / (crawl.processes * crawl.slots),
        requests * crawl.busy / crawl.processes,
    )


def zipf(requests: int, hosts: int, exponent: float = 1.0) -> list[int]:
    """Return requests by host, as a power law shares them; each has one at least."""
    weights = [1 / rank**exponent for rank in range(1, hosts + 1)]
    total = sum(weights)
    return [max(1, round(requests * weight / total)) for weight in weights]


@dataclass(frozen=True)
class Work:
    """Work by leases. busy: seconds of a meme; crash: share of batches whose worker dies; ttl: of a lease."""

    memes: int
    workers: int
    batch: int
    busy: float
    crash: float
    ttl: float
    attempts: int


def simulated_leases(work: Work, seed: int = 1) -> Counter[str]:
    """Return counts: leases handed out, memes done and abandoned, and the seconds until nothing is left."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    fresh = work.memes
    expired: list[tuple[float, int, int]] = []  # when, attempts before, memes
    free = [0.0] * work.workers
    heapq.heapify(free)
    clock = end = 0.0
    while fresh or expired:
        clock = max(clock, heapq.heappop(free))
        if expired and expired[0][0] <= clock:
            _, tries, memes = heapq.heappop(expired)
            if tries >= work.attempts:
                counts["abandoned"] += memes
                heapq.heappush(free, clock)
                continue
        elif fresh:
            tries, memes = 0, min(work.batch, fresh)
            fresh -= memes
        else:
            heapq.heappush(free, expired[0][0])
            continue
        counts["leases"] += memes
        finished = clock + memes * work.busy
        if chance.random() < work.crash:
            heapq.heappush(expired, (clock + work.ttl, tries + 1, memes))
        else:
            counts["done"] += memes
            end = max(end, finished)
        heapq.heappush(free, finished)
    counts["seconds"] = math.ceil(max(end, clock))
    return counts


@dataclass(frozen=True)
class Volume:
    """What a build of `captions` reads and writes, from a small build of the same settings."""

    small: Build
    captions: int
    held_out: float

    @property
    def block_bytes(self) -> float:
        """Bytes of all blocks."""
        return self.small.block_bytes / self.small.captions * self.captions

    @property
    def groups(self) -> int:
        """Indexes of held-out captions; with more than 1,024 parts' worth, each part is one."""
        return max(1, min(_PARTS, math.ceil(self.captions * self.held_out / HELD_OUT_AT_ONCE)))

    @property
    def filter_seconds(self) -> float:
        """Processor seconds of all stages that read a caption once."""
        return self.small.fixed_seconds + self.small.seconds_each * self.captions

    @property
    def leak_seconds(self) -> float:
        """Processor seconds of the search of held-out captions, which reads each caption once for each index."""
        return self.small.leak_seconds / (self.small.captions * self.small.groups) * self.captions * self.groups

    @property
    def part_rows(self) -> int:
        """Captions of a range of hashes, which one task holds in memory."""
        return math.ceil(self.captions / _PARTS)


def _frontier(quick: bool) -> Iterator[Row]:
    small = Crawl(zipf(150 if quick else 600, 20), 0.1, 0.0, 3, 16, 0.0)
    real, modelled = seconds_of_frontier(small.hosts, small.delay, small.processes), simulated_crawl(small)
    yield _checked("frontier", f"{sum(small.hosts)} requests, 20 hosts, 3 processes", "seconds", modelled, real)
    for exponent, what in ((1.0, "one large host"), (0.0, "equal hosts")):
        sample = Crawl(zipf(200_000, 2_000, exponent), 1.0, 0.3, 8, 32, _PICTURE_SECONDS)
        events, bound = simulated_crawl(sample), bound_of_crawl(sample)
        yield _checked("frontier", f"200,000 requests, {what}: bound beside events", "seconds", bound, events)
    for hosts, exponent in ((1, 0.0), (1_000, 0.0), (20_000, 1.0), (100_000, 0.5)):
        crawl = Crawl(zipf(_BILLION, hosts, exponent), 1.0, 0.3, 64, 32, _PICTURE_SECONDS)
        first = max(crawl.hosts) / sum(crawl.hosts)
        figures = {
            "largest host": f"{first:.1%} of the requests",
            "days": f"{bound_of_crawl(crawl) / 86400:,.0f}",
            "requests/s": f"{_BILLION / bound_of_crawl(crawl):,.0f}",
            "busy Redis servers": f"{_BILLION / bound_of_crawl(crawl) * _REDIS_SECONDS:.2f}",
        }
        yield Row("frontier", f"a billion, {hosts:,} hosts, delay 1 s, 64 processes", figures)
    sizes = {"frontier with 1 % of them waiting": _BILLION / 100, "with all": _BILLION}
    memory = {name: f"{requests * _REDIS_BYTES / 1e9:,.0f} GB" for name, requests in sizes.items()}
    yield Row("frontier", "a billion, memory of Redis", memory)


def _leases(quick: bool) -> Iterator[Row]:
    small = Work(500 if quick else 3_000, 4, 16, 0.0, 0.2, 1.0, 3)
    real, modelled = leases_in_a_catalog(small.memes, small.batch, small.crash, small.ttl), simulated_leases(small)
    yield _checked("leases", f"{small.memes} memes, a fifth of the batches crash", "leases", modelled["leases"], real)
    config = load_config(environment={}).ocr
    hourly = 1 / 24  # crashes of a run: its machine, once a day
    for batch in (config.batch, 256, 1024):
        seconds = batch * 0.09
        crash = hourly / 3600 * seconds
        work = Work(1_000_000, 64, batch, 0.09, crash, config.lease_seconds, config.attempts)
        counts = simulated_leases(work)
        figures = {
            "done again": f"{crash / (1 - crash):.4%}",
            "abandoned of a billion": f"{crash**config.attempts * _BILLION:,.4f}",
            "exchanges a second": f"{2 * 64 / seconds:,.1f}",
            "end after the ideal": f"{counts['seconds'] - work.memes * work.busy / work.workers:,.0f} s",
        }
        yield Row("leases", f"batch {batch}, 64 runs, each crashes once a day", figures)


def _builder(quick: bool) -> Iterator[Row]:
    sizes = (2_000, 4_000, 8_000) if quick else (20_000, 40_000, 1_000_000)
    measured_build(500)  # loads what is loaded once
    *known, larger = (measured_build(size) for size in sizes)
    guess = Volume(fitted(*known), larger.captions, larger.held_out)
    who = f"{sizes[-1]:,} memes from {sizes[0]:,} and {sizes[1]:,}"
    yield _checked("builder", who, "bytes", guess.block_bytes, larger.block_bytes)
    yield _checked("builder", f"{who}: processor", "seconds", guess.filter_seconds, larger.linear_seconds)
    leaks = guess.leak_seconds
    yield _checked("builder", f"{who}: held-out captions", "seconds", leaks, larger.leak_seconds, 1.0)
    larger = fitted(known[0], larger)
    for held_out in (larger.held_out, 0.001):
        plan = Volume(larger, _BILLION, held_out)
        figures = {
            "blocks": f"{plan.block_bytes / 1e12:.2f} TB",
            "captions of a part": f"{plan.part_rows:,}",
            "indexes of held-out captions": f"{plan.groups:,}",
            "keys read for them": f"{plan.groups * _BILLION * larger.key_bytes / 1e12:,.1f} TB",
            "processor hours": f"{plan.filter_seconds / 3600:,.0f} + {plan.leak_seconds / 3600:,.0f} for held-out ones",
        }
        yield Row("builder", f"a billion captions, {held_out:.1%} held out", figures)


def _checked(part: str, who: str, unit: str, modelled: float, real: float, most: float = _TOLERANCE) -> Row:
    error = modelled / real - 1
    figures = {"model": f"{modelled:,.1f} {unit}", "real": f"{real:,.1f} {unit}", "error": f"{error:+.1%}"}
    return Row(part, who, figures, f"error <= {most:.0%}", abs(error) <= most)


def main() -> None:
    """Measure, simulate and print one table; exit with 1 if a model errs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller real runs")
    parts = {"frontier": _frontier, "leases": _leases, "builder": _builder}
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    options = parser.parse_args()
    rows = print_parts("A billion memes", options.parts, lambda name: parts[name](options.quick))
    if missed := [f"{row.part}: {row.who}" for row in rows if row.met is False]:
        raise SystemExit(f"the model errs: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
