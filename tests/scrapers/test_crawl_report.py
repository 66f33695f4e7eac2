"""The report of a crawl: its series on disk, also after a kill -9, and the page drawn from it."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.progress import HostNow, Now, Silent
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.report.page import draw
from memeloom.scrapers.report.plots import Intervals
from memeloom.scrapers.report.series import (
    POINTS,
    CrawlHistory,
    Rates,
    Sample,
    SeriesFile,
    Thinned,
    history_of,
    read_history,
    read_lines,
)
from memeloom.scrapers.report.status import CrawlStatus, StatusReader
from memeloom.scrapers.session import CrawlSession
from tests.html_page import Page, check_self_contained
from tests.services.website import Answer, Asked, Website

HOSTILE = """<script>alert("1")</script>' onload='x' & <img src=x onerror=y>"""
RUN = """
import pickle, sys
from memeloom.configs.progress import Silent
from memeloom.scrapers.crawl import crawl
crawl(pickle.loads(open(sys.argv[1], "rb").read()), Silent())
"""


def labels(page: Page) -> list[str]:
    """The descriptions of the plots."""
    return [str(attributes["aria-label"]) for attributes in page.of("svg")]


class Onlooker(Silent):
    """A progress that records what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Now] = []

    def show(self, now: Now) -> None:
        self.shown.append(now)


@pytest.fixture
def subreddit(
    website: Website, crawl_config: Callable[..., Config], picture: Callable[[int], bytes]
) -> Callable[..., Config]:
    """Makes a subreddit of so many posts whose pictures take a while, and some that are dead; returns settings."""

    def build(posts: int, dead: int = 0, seconds: float = 0.0) -> Config:
        website.json("/api/v1/access_token", {"access_token": "t"})
        website.pages["/robots.txt"] = (200, {}, b"")
        children = [
            {"kind": "t3", "data": {
                "id": f"p{number}", "permalink": f"/p{number}/", "url": f"{website.url}/{number}.jpg",
                "title": "t", "author": "a",
            }}
            for number in range(posts + dead)
        ]  # fmt: skip
        website.json("/r/memes/new?limit=100&raw_json=1", {"data": {"after": None, "children": children}})

        def slowly(data: bytes) -> Callable[[Asked], Answer]:
            def answer(asked: Asked) -> Answer:
                time.sleep(seconds)
                return 200, {}, data

            return answer

        website.pages |= {f"/{number}.jpg": slowly(picture(number)) for number in range(posts)}
        reddit = {
            "site": website.url, "api": website.url, "client_id": "i", "client_secret": "s", "subreddits": ("memes",)
        }  # fmt: skip
        return crawl_config(sources=("reddit",), reddit=reddit, concurrency_per_host=2)

    return build


def only(config: Config, pattern: str) -> Path:
    (path,) = Path(config.runs).glob(pattern)
    return path


def samples(n: int, per_step: int = 10) -> Iterator[dict[str, Any]]:
    """Lines of a long crawl, as they lie on disk."""
    for step in range(n):
        hosts = {
            f"host{place}": {"state": "ok", "latency_s": 0.1, "answers": step, "failures": 0, "bytes": step}
            for place in range(12)
        }
        yield {
            "seconds": float(step), "counts": {"memes": step * per_step, "pages": step}, "received_bytes": 1000 * step,
            "reasons": {f"image: HTTP {code}": step for code in range(400, 440)}, "rss_bytes": 10**8 + step % 1000,
            "queue": {"imgflip": step % 500}, "host_states": {"ok": 12}, "hosts": hosts,
        }  # fmt: skip


def small_history(**facts: Any) -> CrawlHistory:
    """Two samples; what the later one holds can be said."""
    host = HostNow("site.example", "ok", 0.25, 10, 1, 5000)
    status = facts.pop("status", CrawlStatus({"imgflip": 3}, (host,), {"ok": 1}, 5000, 10**8))
    counts = facts.pop("counts", {"memes": 20, "pages": 2})
    last = Sample(60.0, counts, facts.pop("reasons", {}), status)
    head = {"started_at": "2026-11-20T10:00:00+00:00", "sources": ["imgflip"]}
    defaults: dict[str, Any] = {"peaks": {"rss_bytes": 10**8, "queue": 3}, "end": {"how": "finished", "errors": []}}
    return CrawlHistory(**{"head": head, "samples": [Sample(30.0, status=status), last], **defaults, **facts})


def test_a_crawl_leaves_a_series_that_ends_with_its_totals_and_a_page(subreddit: Callable[..., Config]) -> None:
    config, onlooker = subreddit(20, dead=5, seconds=0.2), Onlooker()
    summary = crawl(config, onlooker)
    lines = [json.loads(line) for line in only(config, "crawl-*.jsonl").read_text().splitlines()]
    assert lines[0]["sources"] == ["reddit"]
    assert lines[-1]["end"] == {"how": "finished", "errors": []}
    assert lines[-1]["counts"]["memes"] == summary.counts["memes"] == 20
    assert lines[-1]["reasons"] == summary.reasons == {"image: HTTP 404": 5, "dropped: neither picture nor caption": 5}
    assert lines[-1]["received_bytes"] == summary.counts["received bytes"] > summary.counts["bytes"] > 0
    assert (lines[-1]["queue"], summary.counts["requests left"]) == ({"reddit": 0}, 0)
    memes = [line["counts"].get("memes", 0) for line in lines[1:]]
    assert memes == sorted(memes)
    assert len(memes) > 2, "there are lines from while it ran"
    (host,) = lines[-1]["hosts"].values()
    assert (host["state"], host["answers"]) == ("ok", 28), "20 pictures, 5 dead ones, page, token, robots.txt"
    assert host["latency_s"] > 0.05
    assert all(line["rss_bytes"] > 10**7 for line in lines[1:-1] if line["counts"])
    page = Page(Path(summary.outputs["report"]).read_text())
    assert {label.partition(":")[0] for label in labels(page)} >= {"Bytes received per second", "Unfinished requests"}
    assert "20 memes, 1 pages, 20 images" in " ".join(labels(page))
    assert "image: HTTP 404 (5)" in page.text
    assert any(now.queue.get("reddit") for now in onlooker.shown)
    assert any(now.rates["memes"] > 0 for now in onlooker.shown)


def test_a_crawl_that_fails_leaves_its_page_too_and_the_error_names_it(
    website: Website, subreddit: Callable[..., Config]
) -> None:
    config = subreddit(1)
    website.json("/r/memes/new?limit=100&raw_json=1", {"<b>none</b>": 1})
    with pytest.raises(CrawlFailed) as failed:
        crawl(config, Silent())
    path = only(config, "crawl-*.html")
    assert str(path) in str(failed.value)
    page = Page(path.read_text())
    assert "failed" in page.text
    assert "the site has changed its layout" in page.text
    assert list(read_lines(only(config, "crawl-*.jsonl")))[-1]["end"]["how"] == "failed"


def test_kill_9_leaves_a_series_that_can_be_read_and_drawn(subreddit: Callable[..., Config], tmp_path: Path) -> None:
    config = subreddit(100, seconds=0.2)
    pickled = tmp_path / "config.pickle"
    pickled.write_bytes(pickle.dumps(config))
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", RUN, str(pickled)], cwd=root, start_new_session=True)
    deadline = time.monotonic() + 60
    while not any(line.get("counts", {}).get("memes") for line in lines_so_far(config)):
        assert time.monotonic() < deadline, "no meme in time"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    series = only(config, "crawl-*.jsonl")
    with series.open("a") as stream:
        stream.write('{"seconds": 99, "counts": {"mem')  # what a power cut leaves of a line
    history = read_history(series)
    assert history.end is None
    assert 0 < history.last.counts["memes"] < 100
    drawn = subprocess.run(
        [sys.executable, "-m", "memeloom.scrapers.report", str(series)],
        cwd=root, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "killed" in Page(Path(drawn.stdout.strip()).read_text()).text


def lines_so_far(config: Config) -> list[dict[str, Any]]:
    return [line for path in Path(config.runs).glob("crawl-*.jsonl") for line in read_lines(path)]


def test_nothing_from_outside_becomes_part_of_the_page() -> None:
    host = HostNow(HOSTILE, HOSTILE, 0.1, 5, 5, 5)
    html = draw(
        small_history(
            head={"started_at": HOSTILE, "sources": [HOSTILE]},
            reasons={f"image: {HOSTILE}": 3, f"skipped: {HOSTILE}": 2},
            counts={HOSTILE: 4, "memes": 1},
            status=CrawlStatus({HOSTILE: 9, "imgflip": 2}, (host,), {HOSTILE: 1}, 5000, 10**8),
            end={"how": HOSTILE, "errors": [HOSTILE]},
        )
    )
    check_self_contained(html)
    page = Page(html)
    assert not page.of("img")
    assert page.text.count(HOSTILE) >= 8
    assert any(HOSTILE in label for label in labels(page))


def test_each_plot_says_what_it_shows_and_its_numbers_are_in_a_table() -> None:
    page = Page(draw(small_history(reasons={"image: HTTP 404": 30, "page: timed out": 2})))
    said = dict(label.split(": ", 1) for label in labels(page) if ": " in label)
    assert said["Errors by reason, every 1 s"] == "image: HTTP 404 (30); page: timed out (2)"
    assert said["Latency of the busiest hosts"] == "site.example 250 ms"
    assert all(attributes.get("role") == "img" for tag, attributes in page.tags if tag == "svg")
    assert "until 30 s" in page.text


@pytest.mark.parametrize("taken", [0, 1])
def test_a_crawl_that_ends_at_once_has_a_page(taken: int) -> None:
    page = Page(draw(history_of([{"series": "memeloom crawl"}, *samples(taken)])))
    assert "ended before there was anything to plot" in page.text


def test_however_long_a_crawl_its_page_stays_small_and_its_totals_exact() -> None:
    thinned, most = Thinned(), 0
    for line in range(100_000):
        thinned.add(Sample(float(line)))
        most = max(most, len(thinned._kept))
    assert most < POINTS
    history = history_of(samples(20_000))
    assert POINTS / 2 < len(history.samples) <= POINTS
    assert history.last.counts["memes"] == 19_999 * 10
    assert history.peaks == {"rss_bytes": 10**8 + 999, "queue": 499}
    memes = Intervals(history.samples).amounts(lambda sample: sample.counts["memes"])
    assert sum(memes) == pytest.approx(199_990)
    assert len(memes) <= 121
    assert len(draw(history)) < 200_000


def test_a_week_of_crawling_makes_a_series_of_a_few_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    file = SeriesFile(path, {})
    sample = Sample(0.0, {"memes": 10**7, "pages": 10**6, "bytes": 10**12}, {f"image: HTTP {n}": 9 for n in range(99)})
    for step in range(7 * 86400 // 5):
        file.add(Sample(5.0 * step, sample.counts, sample.reasons), {})
    file.close()
    assert path.stat().st_size < 20_000_000
    times = [line["seconds"] for line in read_lines(path) if "seconds" in line]
    assert times[1] == 5
    assert max(later - earlier for earlier, later in pairwise(times)) <= 65
    assert all(len(line["reasons"]) <= 40 for line in read_lines(path) if "reasons" in line)


def test_amounts_fall_into_the_stretch_in_which_they_happened() -> None:
    steps = [Sample(0.0), Sample(10.0, {"memes": 10}), Sample(20.0, {"memes": 10}), Sample(30.0, {"memes": 40})]
    memes = Intervals(steps, most=3).amounts(lambda sample: sample.counts.get("memes", 0))
    assert memes == [10, 0, 30]
    assert Intervals(steps, most=3).rates(lambda sample: sample.counts.get("memes", 0)) == [1, 0, 3]


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    assert rates.of(Sample(0.0, {"memes": 500}))["memes"] == 0
    for second in range(1, 30):
        last = rates.of(Sample(float(second), {"memes": 500 + 10 * second}))
    assert last["memes"] == 10
    assert rates.of(Sample(60.0, {"memes": 790}))["memes"] < 1


def test_the_status_of_many_hosts_is_small_and_the_worst_come_first() -> None:
    session = CrawlSession(load_config(environment={}).crawl)
    for place in range(5000):
        session.hosts.answered(f"host{place}", 100, 0.1)
    for _ in range(3):
        session.hosts.answered("busy", 100, 0.2)
    session.hosts["ill"].given_up = True
    for name in ("tired", "busy"):
        session.hosts[name].rests_until = time.monotonic() + 60
    status = StatusReader(session).read()
    assert status.states == {"ok": 5000, "given up": 1, "resting": 2}
    assert {host.name for host in status.hosts[:3]} == {"ill", "tired", "busy"}
    assert status.hosts[0].state == "given up"
    assert len(status.hosts) <= 12
    assert status.received_bytes == 5003 * 100
    assert len(pickle.dumps(status)) < 4000


def test_a_disk_that_takes_no_series_is_one_clear_error(subreddit: Callable[..., Config], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = subreddit(1).model_copy(update={"runs": str(tmp_path / "file" / "runs")})
    with pytest.raises(MemeloomError, match=r"cannot write .*jsonl: Not a directory"):
        crawl(config, Silent())
