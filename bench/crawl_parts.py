"""The crawl bench's parts on pages, memory and sharing. An incomplete crawl ends the bench."""

import statistics
import tempfile
import time
from pathlib import Path

from bench.crawl_measure import PEERS, Redis, Series, crawl, site
from bench.crawl_site import UNITS
from bench.rows import Row

_OF_PLAIN = 0.9
_GROWTH = 1.05
_SHARED = 0.6
# Prefetched requests count, too: twice what two processes have in progress, so that this limit is not what is measured.
_HOST_CONCURRENCY = 128
_PLAIN = "plain Scrapy, in memory"


def pages(folder: Path, redis: Redis | None, count: int, rounds: int) -> list[Row]:
    """Measure pages per processor second with each scheduler."""
    crawlers = {_PLAIN: ("plain", False), "Scrapy, JOBDIR (SQLite)": ("disk", False)}
    if redis is not None and PEERS.exists():
        crawlers["scrapy-redis"] = ("scrapy-redis", True)
    crawlers |= {"our frontier, SQLite": ("frontier", False), "our whole crawl, SQLite": ("crawl", False)}
    if redis is not None:
        crawlers |= {"our frontier, Redis": ("frontier", True), "our whole crawl, Redis": ("crawl", True)}
    series = {name: Series() for name in crawlers}
    with site(count) as address:
        for _ in range(rounds):
            for name, (kind, on_redis) in crawlers.items():
                _crawl_pages(series[name], kind, f"{address}/page/0", count, fresh(folder), redis if on_redis else None)
    plain = series[_PLAIN].rate
    return [_page_row(name, measured, plain) for name, measured in series.items()]


def _crawl_pages(series: Series, kind: str, start_url: str, count: int, folder: Path, redis: Redis | None) -> None:
    before = redis.cpu_seconds() if redis else 0.0
    run = crawl(kind, start_url, folder, *(["--redis", redis.fresh()] if redis else [])).wait()
    expect(kind, int(run.answer["items"]), count * UNITS)
    series.rates.append(count / run.answer["cpu_seconds"])
    series.memory_mb.append(run.answer["rss_mb"])
    if redis:
        series.redis_cpu_seconds.append(redis.cpu_seconds() - before)


def _page_row(name: str, measured: Series, plain: float) -> Row:
    ours = name.startswith("our")
    figures = {
        "pages a CPU second": f"{measured.rate:.0f} ({min(measured.rates):.0f}-{max(measured.rates):.0f})",
        "against plain": f"{measured.rate / plain:.2f}",
        "MB": f"{statistics.median(measured.memory_mb):.0f}",
    }
    if measured.redis_cpu_seconds:
        figures["CPU seconds of Redis"] = f"{statistics.median(measured.redis_cpu_seconds):.1f}"
    goal = f">= {_OF_PLAIN} x plain" if ours else ""
    return Row("pages", name, figures, goal, measured.rate >= _OF_PLAIN * plain if ours else None)


def memory(folder: Path, redis: Redis | None, count: int) -> list[Row]:
    """Measure resident memory after each tenth of a long crawl of small pages."""
    crawlers = {_PLAIN: ("plain", False), "our whole crawl, SQLite": ("crawl", False)}
    if redis is not None:
        crawlers["our whole crawl, Redis"] = ("crawl", True)
    rows = []
    with site(count) as address:
        for name, (kind, on_redis) in crawlers.items():
            place = ["--redis", redis.fresh()] if redis and on_redis else []
            run = crawl(kind, f"{address}/small/0", fresh(folder), "--sample", str(count), *place).wait()
            expect(name, int(run.answer["items"]), count)
            samples = run.answer["samples_mb"]
            growth = samples[-1] / samples[1]
            figures = {
                "pages a CPU second": f"{count / run.answer['cpu_seconds']:.0f}",
                "growth since 20 %": f"{growth:.2f}",
                "MB": f"{run.answer['rss_mb']:.0f}",
                f"MB after each tenth of {count:,}": " ".join(f"{sample:.0f}" for sample in samples),
            }
            goal = f"growth <= {_GROWTH}" if kind != "plain" else ""
            rows.append(Row("memory", name, figures, goal, growth <= _GROWTH if goal else None))
    return rows


def sharing(folder: Path, redis: Redis, count: int) -> list[Row]:
    """Measure the seconds that one process and two take for a site with 0.5 s latency."""
    seconds = []
    with site(count) as address:
        for processes in (1, 2):
            place, used, began = redis.fresh(), fresh(folder), time.monotonic()
            options = ["--redis", place, "--concurrency", str(_HOST_CONCURRENCY)]
            crawls = [crawl("crawl", f"{address}/slow/0", used, *options, pinned=False) for _ in range(processes)]
            shares = [each.wait().answer["items"] for each in crawls]
            seconds.append(time.monotonic() - began)
            expect("sharing", sum(shares), count)
    share = seconds[1] / seconds[0]
    figures = {
        "seconds": f"{seconds[0]:.1f} -> {seconds[1]:.1f}",
        "against one": f"{share:.2f}",
        "pages of each": f"{shares[0]} and {shares[1]}",
        "concurrent requests to the host": str(_HOST_CONCURRENCY),
    }
    return [Row("sharing", "two processes, one Redis", figures, f"<= {_SHARED} x one", share <= _SHARED)]


def fresh(folder: Path) -> Path:
    """Return a new folder in `folder` for one crawl.

    Those of earlier crawls stay until the end: for minutes after many files were deleted, ext4 searches long for each
    new one.
    """
    return Path(tempfile.mkdtemp(dir=folder))


def expect(name: str, found: int, wanted: int) -> None:
    """Exit if a crawl lost or duplicated something: its figures would be wrong."""
    if found != wanted:
        raise SystemExit(f"{name}: {found} instead of {wanted}")
