"""kill -9 of crawling processes and servers: nothing is lost, nothing is duplicated, nothing hangs.

What takes many kills or many processes is marked `soak`; the frontier's own tests cover the same cases step by step.
"""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memeloom.catalog.errors import StoreUnavailable
from memeloom.catalog.stores import open_documents
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Store
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed
from memeloom.scrapers.frontier.contract import Changes, frontier_of
from tests.scrapers.frontier_workers import open_test_frontier
from tests.scrapers.killing import (
    MILD_FAULTS,
    Crawler,
    crawl_under_fire,
    reckon,
    settings_of,
    stores,
    wait_until,
    whole,
)
from tests.services.ceph import Gateway
from tests.services.redis import RedisServer

Start = Callable[..., Crawler]
NAMESPACE = ("unshare", "--map-root-user", "--mount")
KILLS = 3
SOAK_KILLS = 8
# Deadline in seconds of a crawl that is not killed, on a busy machine.
LONG = 120.0


@pytest.fixture
def internet() -> Iterator[Internet]:
    with Internet(memes=180, posts=20, variety=True, quick=True) as running:
        yield running


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts crawls that do not outlive the test."""
    with ExitStack() as stack:

        def build(settings: list[str], **options: object) -> Crawler:
            crawler = Crawler(settings, tmp_path / f"crawl-{time.monotonic_ns()}", **options)  # type: ignore[arg-type]
            stack.callback(crawler.end)
            return crawler

        yield build


@pytest.fixture
def settings(internet: Internet, tmp_path: Path, store_config: Store) -> Callable[..., Config]:
    """Settings of a crawl of all that Imgflip serves; arguments are further overrides."""

    def build(*overrides: str, store: Store = store_config) -> Config:
        return settings_of(
            [*internet.settings, *whole("imgflip"), *stores(store), f"runs={tmp_path}/runs", *overrides]
        )  # fmt: skip

    return build


@dataclass
class Crawled:
    """Runs a crawl in a thread while a server fails."""

    settings: Callable[..., Config]
    config: Config = field(init=False)

    @contextmanager
    def __call__(self, *overrides: str, store: Store | None = None) -> Iterator[Future[Summary]]:
        """Start a crawl; the block begins when it has stored 20 memes."""
        self.config = self.settings(*overrides, **({"store": store} if store else {}))
        with ThreadPoolExecutor(1) as threads, closing(open_documents(self.config.store)) as documents:
            crawling = threads.submit(crawl, self.config)
            wait_until(lambda: documents.count() >= 20 or crawling.done())
            yield crawling


@pytest.fixture
def crawled(settings: Callable[..., Config]) -> Crawled:
    return Crawled(settings)


def ends_well(crawler: Crawler) -> None:
    assert crawler.wait(LONG) == 0, crawler.words


def stored(settings: list[str]) -> int:
    with closing(open_documents(settings_of(settings).store)) as documents:
        return documents.count()


class TestKilled:
    def test_on_sqlite_and_a_folder(self, internet: Internet, start: Start, store_config: Store) -> None:
        internet.set_faults(MILD_FAULTS)
        settings = [*internet.settings, *whole("imgflip", "reddit"), *stores(store_config)]
        attack = crawl_under_fire(
            [start(settings)], internet, kills=KILLS, chance=random.Random(20), seconds=2 * LONG
        )  # fmt: skip
        assert attack.kills.total() == KILLS
        assert attack.gave_up == []
        assert reckon(settings_of(settings), internet).faults() == {}

    @pytest.mark.soak
    def test_three_processes_on_redis_mongodb_and_s3_one_of_which_is_restarted(
        self, internet: Internet, start: Start, redis: RedisServer, mongo_url: str, s3_store: Store
    ) -> None:
        def away() -> None:
            redis.kill()
            redis.start()

        internet.set_faults(MILD_FAULTS)
        store = s3_store.model_copy(update={"documents": mongo_url})
        settings = [
            *internet.settings, *whole("imgflip", "reddit"), *stores(store), f"crawl.frontier={redis.url()}"
        ]  # fmt: skip
        attack = crawl_under_fire(
            [start(settings) for _ in range(3)], internet, kills=SOAK_KILLS, chance=random.Random(21), outages=[away],
            seconds=2 * LONG,
        )  # fmt: skip
        assert (attack.kills.total(), attack.outages) == (SOAK_KILLS, 1)
        assert attack.gave_up == []
        assert reckon(settings_of(settings), internet).faults() == {}


@pytest.mark.soak
class TestPoison:
    def test_a_request_that_kills_the_process_is_set_aside_and_all_others_are_crawled(
        self, internet: Internet, start: Start, store_config: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memes = [meme for meme in internet.served() if meme.source == "imgflip" and meme.kind == "still"]
        poison = memes[100]
        monkeypatch.setenv("POISON", poison.id)
        settings = [*internet.settings, *whole("imgflip"), *stores(store_config), "crawl.attempts=3"]
        crawler = start(settings, program=("-m", "tests.scrapers.poisoned"))
        deaths = 0
        while crawler.wait(LONG) != 0:
            assert "crashed (exit code 77)" in crawler.words
            deaths += 1
            assert deaths <= 3, crawler.words
            crawler.start()
        assert deaths == 3
        before = reckon(settings_of(settings), internet)
        assert before.faults() == {"lost": {poison.id}, "unfinished requests": {"imgflip, dead": 1}}
        listing = start(settings, arguments=("--failed",))
        ends_well(listing)
        assert listing.words.strip() == (
            f"imgflip\tthe crawling process crashed while processing it\t{poison.image_url}"
        )
        ends_well(start(settings, arguments=("--retry-failed",)))
        assert reckon(settings_of(settings), internet).faults() == {}


@pytest.mark.soak
class TestSilence:
    @pytest.mark.parametrize("kind", ["sqlite", "redis"])
    def test_a_process_that_sleeps_longer_than_its_lease_spoils_nothing_when_it_wakes(
        self, internet: Internet, start: Start, store_config: Store, tmp_path: Path, redis_url: str, kind: str
    ) -> None:
        url = redis_url if kind == "redis" else f"sqlite:///{tmp_path}/frontier.db"
        settings = [
            *internet.settings, *whole("imgflip"), *stores(store_config), f"crawl.frontier={url}",
            "crawl.lease_seconds=2",
        ]  # fmt: skip
        sleeper = start(settings)
        wait_until(lambda: stored(settings) >= 20)
        files = [tmp_path / "catalog.db"] + ([tmp_path / "frontier.db"] if kind == "sqlite" else [])
        put_to_sleep(sleeper, settings, files)
        ends_well(start(settings))
        assert sleeper.code is None
        assert reckon(settings_of(settings), internet).faults() == {}
        sleeper.signal(signal.SIGCONT)
        ends_well(sleeper)
        assert reckon(settings_of(settings), internet).faults() == {}


def put_to_sleep(crawler: Crawler, settings: list[str], files: list[Path]) -> None:
    """Stop a crawl while it holds leases, but none of the locks of SQLite, which nobody could take from it."""
    with closing(frontier_of(settings_of(settings), "imgflip")) as frontier:

        def fell_asleep() -> bool:
            crawler.signal(signal.SIGSTOP)
            if frontier.tallies().leased and not any(is_locked(file) for file in files):
                return True
            crawler.signal(signal.SIGCONT)
            return False

        wait_until(fell_asleep)


def is_locked(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


class TestServersGoAway:
    def test_the_frontier_for_a_while(self, internet: Internet, redis: RedisServer, crawled: Crawled) -> None:
        with crawled(f"crawl.frontier={redis.url()}") as crawling:
            redis.kill()
            time.sleep(1)
            redis.start()
            crawling.result(LONG)
        assert reckon(crawled.config, internet).faults() == {}

    def test_the_frontier_for_good(self, internet: Internet, redis: RedisServer, crawled: Crawled) -> None:
        # The process of the failed crawl lives on, so its leases have to expire.
        quick = ("store.timeout_seconds=1", "crawl.lease_seconds=3")
        with crawled(f"crawl.frontier={redis.url()}", *quick) as crawling:
            redis.kill()
            with pytest.raises(CrawlFailed) as failed:
                crawling.result(LONG)
        assert f"Redis at {redis.url()}: not reached within 2 s" in str(failed.value)
        assert "is the server running?" in str(failed.value)
        redis.start()
        crawl(crawled.config)
        assert reckon(crawled.config, internet).faults() == {}

    def test_one_that_is_down_is_told_before_anything_is_crawled(
        self, internet: Internet, redis: RedisServer, settings: Callable[..., Config]
    ) -> None:
        config = settings(f"crawl.frontier={redis.url()}", "store.timeout_seconds=1")
        redis.kill()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"not reached within 1 s"):
            crawl(config)
        assert time.monotonic() - began < 5
        assert not Path(config.runs).exists()
        assert internet.log()["requests"] == {}

    @pytest.mark.soak
    def test_the_blob_store_for_a_while(
        self, internet: Internet, s3_server: Gateway, s3_server_store: Store, crawled: Crawled
    ) -> None:
        with crawled(store=s3_server_store) as crawling:
            s3_server.kill()
            time.sleep(2)
            s3_server.start()
            crawling.result(LONG)
        assert reckon(crawled.config, internet).faults() == {}


class TestHostsThatRest:
    def test_a_host_is_asked_again_once_it_has_rested_even_if_nothing_else_happens(
        self, internet: Internet, settings: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Neither Scrapy's periodic look for requests helps, nor a heartbeat of ours.
        monkeypatch.setattr("scrapy.core.engine.ExecutionEngine._SLOT_HEARTBEAT_INTERVAL", 10_000.0)
        busy = Rule("rate_limit", per="host", times=1, after=50, every=60, path=r"^imgflip_images/(?!robots)")
        internet.set_faults([busy])
        config = settings("crawl.lease_seconds=10000")
        crawl(config)
        assert internet.log()["faults"]["rate_limit"] >= 2
        assert reckon(config, internet).faults() == {}


@pytest.mark.soak
class TestFullDisk:
    def test_a_crawl_whose_frontier_has_no_room_says_so_and_goes_on_when_there_is(
        self, internet: Internet, store_config: Store, tmp_path: Path
    ) -> None:
        allowed = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True)
        if not allowed or allowed.returncode:
            pytest.skip("a small disk needs a mount namespace, and this system does not allow one")
        disk = tmp_path / "disk"
        disk.mkdir()
        settings = [
            *internet.settings, *whole("imgflip"), *stores(store_config), f"crawl.frontier=sqlite:///{disk}/frontier.db"
        ]  # fmt: skip
        overrides = [word for each in (*settings, f"runs={tmp_path}/runs") for word in ("--set", each)]
        script = """
            disk=$1; shift
            mount -t tmpfs -o size=500k tmpfs "$disk" || exit 3
            "$@"; [ $? = 1 ] || exit 4
            mount -o remount,size=100m "$disk" || exit 5
            "$@" || exit 6
        """
        crawl = [sys.executable, "-m", "memeloom.cli.main", *overrides, "crawl"]
        done = subprocess.run(
            [*NAMESPACE, "sh", "-c", script, "sh", str(disk), *crawl],
            cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=2 * LONG, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"memeloom: {disk}/frontier.db: the disk is full; make room and run again" in done.stderr
        there = settings_of([*settings, f"crawl.frontier=sqlite:///{tmp_path}/none.db"])
        assert reckon(there, internet).faults() == {}


class TestSeveralProcesses:
    @pytest.mark.parametrize("kind", ["sqlite", "redis"])
    def test_each_is_told_whether_others_are_at_work_as_well(self, tmp_path: Path, redis_url: str, kind: str) -> None:
        url = redis_url if kind == "redis" else f"sqlite:///{tmp_path}/frontier.db"
        with closing(open_test_frontier(url)) as first:
            first.open()
            assert not first.exchange(Changes(), 1).shared
            with closing(open_test_frontier(url)) as second:
                second.open()
                assert first.exchange(Changes(), 1).shared
                assert second.exchange(Changes(), 1).shared
            assert not first.exchange(Changes(), 1).shared

    def test_one_that_comes_when_all_is_done_is_no_failure(
        self, internet: Internet, settings: Callable[..., Config]
    ) -> None:
        config = settings("crawl.imgflip.templates=1", "crawl.imgflip.pages_per_template=1")
        with closing(frontier_of(config, "imgflip")) as somebody:
            somebody.open()
            crawl(config)
            crawl(config)
        assert internet.log()["requests"]["imgflip_api"]["/get_memes"] == {"200": 1}

    def test_all_of_them_end_also_those_that_found_nothing_to_do(
        self, internet: Internet, start: Start, redis_url: str, store_config: Store
    ) -> None:
        few = ("crawl.imgflip.templates=1", "crawl.imgflip.pages_per_template=1")
        settings = [*internet.settings, *stores(store_config), f"crawl.frontier={redis_url}", *few]
        crawlers = [start(settings) for _ in range(2)]
        for crawler in crawlers:
            ends_well(crawler)
        assert 0 < stored(settings) < 20
        with closing(frontier_of(settings_of(settings), "imgflip")) as frontier:
            tallies = frontier.tallies()
        assert (tallies.pending, tallies.leased, tallies.dead, tallies.seen) == (0, 0, 0, 0), "the last one clears up"

    @pytest.mark.soak
    def test_each_stops_at_its_limit_and_the_next_crawl_resumes(
        self, internet: Internet, start: Start, redis_url: str, store_config: Store
    ) -> None:
        settings = [*internet.settings, *whole("imgflip"), *stores(store_config), f"crawl.frontier={redis_url}"]
        limited = [start([*settings, "crawl.max_memes=40"]) for _ in range(2)]
        for crawler in limited:
            ends_well(crawler)
        assert stored(settings) == 80
        ends_well(start(settings))
        assert reckon(settings_of(settings), internet).faults() == {}
