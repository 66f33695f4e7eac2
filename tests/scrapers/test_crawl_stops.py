"""Crawls that are interrupted or killed: nothing acknowledged is lost, nobody stays behind, a rerun completes."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed
from tests.services.website import Answer, Asked, Website

POSTS = 24
RUN = """
import pickle, sys
from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Silent
from memeloom.scrapers.crawl import crawl
try:
    crawl(pickle.loads(open(sys.argv[1], "rb").read()), Silent())
except MemeloomError as error:
    sys.exit(f"error: {error}")
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def slow_subreddit(website: Website, crawl_config: Callable[..., Config], picture: Callable[[int], bytes]) -> Config:
    """One page of 24 posts whose pictures take a tenth of a second each, one after the other."""
    website.json("/api/v1/access_token", {"access_token": "t"})
    children = [
        {"kind": "t3", "data": {
            "id": f"p{number}", "permalink": f"/p{number}/", "url": f"{website.url}/{number}.jpg",
            "title": "t", "author": "a",
        }}
        for number in range(POSTS)
    ]  # fmt: skip
    website.json("/r/memes/new?limit=100&raw_json=1", {"data": {"after": None, "children": children}})

    def slowly(number: int) -> Callable[[Asked], Answer]:
        data = picture(number)

        def answer(asked: Asked) -> Answer:
            time.sleep(0.1)
            return 200, {}, data

        return answer

    website.pages |= {f"/{number}.jpg": slowly(number) for number in range(POSTS)}
    reddit = {"site": website.url, "api": website.url, "client_id": "i", "client_secret": "s", "subreddits": ("memes",)}
    return crawl_config(sources=("reddit",), reddit=reddit, concurrency_per_host=1)


@pytest.fixture
def running(slow_subreddit: Config, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The crawl in a process group of its own, at a moment when some memes are durable and most are not."""
    pickled = tmp_path / "config.pickle"
    pickled.write_bytes(pickle.dumps(slow_subreddit))
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(pickled)],
        cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    documents = open_documents(slow_subreddit.store)
    wait_until(lambda: documents.count() >= 3)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def assert_consistent_and_completed_by_a_rerun(config: Config) -> None:
    blobs, documents = open_blobs(config.store), open_documents(config.store)
    before = {meme.id: meme for meme in documents.scan()}
    assert 3 <= len(before) < POSTS
    assert all(meme.image and blobs.has(meme.image.key) for meme in before.values())
    summary = crawl(config, Silent())
    after = {meme.id: meme for meme in documents.scan()}
    assert len(after) == POSTS
    assert before.items() <= after.items()
    assert summary.counts["new"] == POSTS - len(before)
    assert summary.counts["unchanged"] <= len(before), "a crawl goes on where the last one ended"


def test_ctrl_c_ends_both_processes_cleanly(running: subprocess.Popen[str], slow_subreddit: Config) -> None:
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "")
    wait_until(lambda: group_is_gone(running.pid))
    assert_consistent_and_completed_by_a_rerun(slow_subreddit)


def test_a_killed_parent_leaves_nobody_behind(running: subprocess.Popen[str], slow_subreddit: Config) -> None:
    running.kill()
    running.wait()
    wait_until(lambda: group_is_gone(running.pid))
    assert_consistent_and_completed_by_a_rerun(slow_subreddit)


def test_a_killed_crawl_process_is_one_clear_error(running: subprocess.Popen[str], slow_subreddit: Config) -> None:
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    crawlers = [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert len(crawlers) == 1
    os.kill(int(crawlers[0]), signal.SIGKILL)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert errors.strip().endswith("what it had acknowledged is kept")
    assert "crashed (exit code -9)" in errors
    assert_consistent_and_completed_by_a_rerun(slow_subreddit)


def test_a_crawl_without_progress_is_killed(
    slow_subreddit: Config, website: Website, monkeypatch: pytest.MonkeyPatch, spawned: None
) -> None:
    released = threading.Event()

    def never(_asked: Asked) -> Answer:
        released.wait(60)
        return 200, {}, b""

    website.pages |= {f"/{number}.jpg": never for number in range(POSTS)}
    monkeypatch.setattr("memeloom.scrapers.crawl._STALL_SECONDS", 1.0)
    try:
        with pytest.raises(CrawlFailed, match=r"no progress for \d+ s, so the crawl was killed"):
            crawl(slow_subreddit, Silent())
    finally:
        released.set()
