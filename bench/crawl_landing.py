"""The crawl bench's part on pictures: memeloom and its peers."""

import json
import statistics
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.crawl_measure import PEERS, Measured, Run, Series, crawl, site
from bench.crawl_parts import expect, fresh
from bench.crawl_pictures import picture_folder
from bench.crawl_site import LISTED
from bench.rows import Row
from memeloom.catalog.documents import Where
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config

_OURS = "ours, SQLite + folder"
_WEBDATASET, _RAW = "img2dataset, webdataset", "img2dataset, raw"
_OF_WEBDATASET, _OF_RAW, _MOST_MB = 2.5, 0.5, 250


@dataclass(frozen=True)
class _Crawler:
    """A crawler: `start` takes the site's address, a folder and a number of lists; `landed` counts pictures."""

    start: Callable[[str, Path, int], Measured]
    landed: Callable[[Path], int]


def pictures(folder: Path, data: Path | None, lists: int, rounds: int) -> list[Row]:
    """Measure pictures per processor second of the whole process tree.

    Each crawler runs on one list, then on all; the rate is that of the difference, which excludes starting Python and
    importing modules. The start is shown separately.
    """
    kept = folder / "pictures"
    kept.mkdir()
    what = picture_folder(data, kept)
    crawlers = _crawlers()
    starts: dict[str, list[float]] = {name: [] for name in crawlers}
    wholes: dict[str, list[Run]] = {name: [] for name in crawlers}
    with site(0, kept) as address:
        for _ in range(rounds):
            for name, crawler in crawlers.items():
                starts[name].append(_land(name, crawler, address, folder, 1).cpu_seconds)
                wholes[name].append(_land(name, crawler, address, folder, lists))
    series = {name: _series(starts[name], wholes[name], lists) for name in crawlers}
    return [_row(name, series, f"{lists * LISTED:,} {what}") for name in crawlers]


def _land(name: str, crawler: _Crawler, address: str, folder: Path, lists: int) -> Run:
    used = fresh(folder)
    run = crawler.start(address, used, lists).wait()
    expect(name, crawler.landed(used), lists * LISTED)
    return run


def _series(starts: list[float], wholes: list[Run], lists: int) -> Series:
    """Return the rates behind the start, whose median is taken: it varies by as much as some crawlers need in all."""
    start = statistics.median(starts)
    rates = [(lists - 1) * LISTED / (whole.cpu_seconds - start) for whole in wholes]
    return Series(
        rates,
        memory_mb=[whole.memory_mb for whole in wholes],
        start_cpu_seconds=start - LISTED / statistics.median(rates),
    )


def _row(name: str, series: dict[str, Series], what: str) -> Row:
    measured = series[name]
    shares = {peer: measured.rate / series[peer].rate for peer in (_WEBDATASET, _RAW) if peer in series}
    goals = {_WEBDATASET: _OF_WEBDATASET, _RAW: _OF_RAW}
    met = all(share >= goals[peer] for peer, share in shares.items()) and max(measured.memory_mb) <= _MOST_MB
    known = len(shares) == len(goals)
    figures = {
        "pictures a CPU second": f"{measured.rate:.0f} ({min(measured.rates):.0f}-{max(measured.rates):.0f})",
        **{f"against {peer}": f"{share:.2f}" for peer, share in shares.items()},
        "MB": f"{max(measured.memory_mb):.0f}",
        "CPU seconds of the start": f"{measured.start_cpu_seconds:.1f}",
    }
    if name != _OURS:
        return Row("pictures", name, figures)
    goal = f">= {_OF_WEBDATASET:g} x webdataset, {_OF_RAW:g} x raw, <= {_MOST_MB} MB"
    return Row("pictures", name, {**figures, "of": what}, goal, met if known else None)


def _crawlers() -> dict[str, _Crawler]:
    found = {_OURS: _Crawler(_scrapy("land"), _landed_here)}
    if PEERS.exists():
        found[_WEBDATASET] = _Crawler(_img2dataset(), _landed_in_img2dataset)
        found[_RAW] = _Crawler(_img2dataset("--disable_all_reencoding", "True"), _landed_in_img2dataset)
    for kind in ("files", "images"):
        found[f"Scrapy {kind.capitalize()}Pipeline"] = _Crawler(_scrapy(kind), _landed_in_scrapy)
    return found


def _scrapy(kind: str) -> Callable[[str, Path, int], Measured]:
    def start(address: str, folder: Path, lists: int) -> Measured:
        return crawl(kind, f"{address}/list/", folder, "--lists", str(lists))

    return start


def _img2dataset(*options: str) -> Callable[[str, Path, int], Measured]:
    def start(address: str, folder: Path, lists: int) -> Measured:
        urls = folder / "urls.txt"
        urls.write_text("\n".join(f"{address}/picture/{number}.jpg" for number in range(lists * LISTED)))
        words = [
            str(PEERS.with_name("img2dataset")), "--url_list", str(urls), "--output_folder", str(folder / "out"),
            "--output_format", "webdataset", "--image_size", "256", "--processes_count", "1", *options,
        ]  # fmt: skip
        return Measured(words, {"NO_ALBUMENTATIONS_UPDATE": "1"})

    return start


def _landed_here(folder: Path) -> int:
    config = load_config(
        overrides=[f"store.documents=sqlite:///{folder}/catalog.db", f"store.blobs={folder}/blobs"], environment={}
    )
    with closing(open_documents(config.store)) as documents, closing(open_blobs(config.store)) as blobs:
        return min(documents.count(Where(image=True)), len(list(blobs.keys())))


def _landed_in_img2dataset(folder: Path) -> int:
    return sum(json.loads(path.read_text())["successes"] for path in folder.glob("out/*_stats.json"))


def _landed_in_scrapy(folder: Path) -> int:
    return sum(1 for _ in folder.glob("store/full/*"))
