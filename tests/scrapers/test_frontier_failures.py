"""When a frontier's file or server cannot do its work: one clear error, or none; and nothing done twice or lost."""

import logging
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis import Redis

from memeloom.catalog.errors import StoreCorrupt, StoreDenied, StoreError, StoreFull, StoreUnavailable
from memeloom.catalog.stores import open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Store
from memeloom.scrapers.frontier.contract import Changes, Frontier, Granted, QueuedRequest, Tallies
from tests.scrapers.frontier_workers import Proxy, open_test_frontier, page, page_number, running, said
from tests.services.process import free_port
from tests.services.redis import RedisServer
from tests.services.website import Website

NAMESPACE = ("unshare", "--map-root-user", "--mount")


@pytest.fixture
def start() -> Iterator[Callable[..., RedisServer]]:
    """Starts Redis servers of the test's own."""
    with ExitStack() as stack:

        def build(**options: str) -> RedisServer:
            server = RedisServer(**options)
            stack.callback(server.stop)
            return server

        yield build


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """A line to the shared Redis that can be cut."""
    between = Proxy(int(redis_url.split(":")[2].partition("/")[0]))
    yield between
    between.close()


def one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 400
    return text


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/frontier.db"


class TestAddress:
    @pytest.mark.parametrize(
        "url",
        ["frontier.db", "sqlite://frontier.db", "mongodb://h/x", "", "redis://:hunter2@h:port/0", "redis://h:99999999/0",
         "redis://:hunter2@h/0?socket_timeout=long", "redis://u:hunter2@h/0?db=x", "redis://:hunter2@[::1/0"],
    )  # fmt: skip
    def test_a_url_that_cannot_be_used_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"crawl\.frontier: cannot use") as error:
            open_test_frontier(url)
        assert "hunter2" not in one_line(error.value)


class TestSqliteFile:
    def test_a_file_that_is_no_database_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "frontier.db").write_bytes(b"this is not a database, but it is long enough to be one" * 100)
        with pytest.raises(StoreCorrupt, match=r"frontier\.db: not a sound SQLite database"):
            open_test_frontier(sqlite_url(tmp_path))

    def test_a_catalog_is_left_alone(self, tmp_path: Path, store_config: Store) -> None:
        open_documents(store_config).close()
        with pytest.raises(StoreError, match=r"catalog\.db: a database, but not a memeloom frontier"):
            open_test_frontier(store_config.documents)

    def test_nor_is_a_frontier_taken_for_a_catalog(self, tmp_path: Path, store_config: Store) -> None:
        open_test_frontier(store_config.documents).close()
        with pytest.raises(StoreError, match=r"catalog\.db: a database, but not a memeloom catalog"):
            open_documents(store_config)

    def test_somebody_elses_lock_is_waited_for_until_the_deadline(self, tmp_path: Path) -> None:
        frontier = open_test_frontier(sqlite_url(tmp_path), timeout_seconds=0.2)
        frontier.open()
        other = sqlite3.connect(tmp_path / "frontier.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"another process held it for more than 0\.2 s"):
            frontier.exchange(Changes(added=[page(1)]), 0)
        other.execute("ROLLBACK")
        other.close()
        assert frontier.exchange(Changes(), 0).unfinished == 0
        frontier.close()

    def test_a_full_disk_keeps_what_was_acknowledged(self, tmp_path: Path) -> None:
        allowed = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True)
        if not allowed or allowed.returncode:
            pytest.skip("a small disk needs a mount namespace, and this system does not allow one")
        disk = tmp_path / "disk"
        disk.mkdir()
        with running("fill", sqlite_url(disk), disk, "4m", inside=NAMESPACE) as worker:
            error, text = said(worker)
            acknowledged, pending, found = said(worker)
        assert (error, text) == ("StoreFull", f"{disk}/frontier.db: the disk is full; make room and run again")
        assert acknowledged > 1000
        assert acknowledged == pending == found


class TestRefusals:
    @pytest.mark.parametrize("login", ["", ":hunter3@", "somebody:hunter3@"])
    def test_wrong_credentials_are_denied(self, start: Callable[..., RedisServer], login: str) -> None:
        server = start(requirepass="hunter2")
        with pytest.raises(StoreDenied, match=r"access denied .*; check the user, the password") as error:
            open_test_frontier(server.url(login)).open()
        assert "hunter" not in one_line(error.value)
        assert f"127.0.0.1:{server.port}" in str(error.value)
        frontier = open_test_frontier(server.url(":hunter2@"))
        assert frontier.open() == 0
        frontier.close()

    def test_missing_rights_are_denied(self, start: Callable[..., RedisServer]) -> None:
        server = start()
        with Redis.from_url(server.url()) as client:
            client.execute_command("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+@read", "+@connection")
        with pytest.raises(StoreDenied, match="access denied") as error:
            open_test_frontier(server.url("reader:hunter2@")).open()
        assert "hunter" not in one_line(error.value)

    def test_a_server_that_is_not_there_is_named(self) -> None:
        port = free_port()
        frontier = open_test_frontier(f"redis://me:hunter2@127.0.0.1:{port}/0", timeout_seconds=0.3)
        match = rf"Redis at redis://me:\*+@127\.0\.0\.1:{port}/0: not reached within 0\.3 s .*is the server running"
        with pytest.raises(StoreUnavailable, match=match) as error:
            frontier.open()
        assert "hunter" not in one_line(error.value)
        with pytest.raises(StoreUnavailable, match=r"not reached within 0\.6 s"):
            frontier.exchange(Changes(), 1)

    def test_a_server_that_is_no_redis_is_named(self, website: Website) -> None:
        with pytest.raises(StoreError, match="Redis at redis://127") as error:
            open_test_frontier(website.url.replace("http", "redis"), timeout_seconds=0.5).open()
        one_line(error.value)

    def test_a_database_that_is_not_there_is_named(self, start: Callable[..., RedisServer]) -> None:
        with pytest.raises(StoreError, match="DB index is out of range") as error:
            open_test_frontier(start().url().removesuffix("0") + "99").open()
        one_line(error.value)

    def test_keys_of_somebody_else_are_left_alone(self, redis_url: str) -> None:
        with Redis.from_url(redis_url) as client:
            client.set("{memeloom:test}:owners", "precious")
            with pytest.raises(StoreError, match="other data is stored under our keys") as error:
                open_test_frontier(redis_url).open()
            assert client.get("{memeloom:test}:owners") == b"precious"
        one_line(error.value)

    def test_full_memory_changes_nothing_and_loses_nothing(self, start: Callable[..., RedisServer]) -> None:
        server = start()
        frontier = open_test_frontier(server.url())
        frontier.open()
        frontier.exchange(Changes(added=[page(1), page(2)]), 0)
        (lease,) = frontier.exchange(Changes(), 1).leases
        everything = Changes(
            added=[page(3)], done=[lease.id], failed=[(lease.id, "x")], rests={"host": 9.0}, marks={"a": "b"}
        )
        with Redis.from_url(server.url()) as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(StoreFull, match=r"the server's memory is full \(maxmemory\)") as error:
                frontier.exchange(everything, 1)
            one_line(error.value)
            assert frontier.tallies() == Tallies(pending=1, leased=1, dead=0, seen=2)
            frontier.close()
            assert frontier.tallies() == Tallies(pending=2, leased=0, dead=0, seen=2)
            client.config_set("maxmemory", "0")
        assert frontier.open() == 2
        assert frontier.mark("a") is None
        assert [page_number(found.body) for found in frontier.exchange(Changes(), 5).leases] == [1, 2]
        frontier.close()

    @pytest.mark.parametrize(
        ("options", "warned"),
        [
            ({}, []),
            ({"appendonly": "no"}, ["loses everything when it stops; set `appendonly yes` there"]),
            ({"appendonly": "no", "save": "60 1"}, []),
            ({"maxmemory-policy": "allkeys-lru"}, ["may evict requests; set `maxmemory-policy noeviction` there"]),
        ],
        ids=["safe", "volatile", "snapshots", "evicting"],
    )
    def test_a_server_that_may_lose_requests_is_warned_of(
        self,
        start: Callable[..., RedisServer],
        caplog: pytest.LogCaptureFixture,
        options: dict[str, str],
        warned: list[str],
    ) -> None:
        server = start(**options)
        frontier = open_test_frontier(server.url())
        with caplog.at_level(logging.WARNING):
            frontier.open()
        assert caplog.messages == [f"Redis at {server.url()} {words}" for words in warned]
        frontier.close()

    def test_one_that_hides_its_settings_is_used_all_the_same(
        self, start: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
    ) -> None:
        server = start(appendonly="no")
        with Redis.from_url(server.url()) as client:
            client.execute_command("ACL", "SETUSER", "guest", "on", ">hunter2", "~{memeloom:*", "+@all", "-@dangerous")
        frontier = open_test_frontier(server.url("guest:hunter2@"))
        frontier.open()
        assert frontier.exchange(Changes(added=[page(1)]), 1).unfinished == 1
        assert (frontier.forget(), caplog.messages) == (0, [])
        frontier.close()


class TestServerGoesAway:
    def test_a_crawl_goes_on_when_the_server_is_killed_and_started(self, start: Callable[..., RedisServer]) -> None:
        server = start()
        frontier = open_test_frontier(server.url())
        frontier.open()
        frontier.exchange(Changes(added=[page(number) for number in range(100)]), 0)
        worked, changes = [], Changes()
        for exchange in range(21):
            if exchange in (5, 15):
                server.kill()
            with ThreadPoolExecutor(1) as thread:
                exchanging = thread.submit(frontier.exchange, changes, 5)
                if exchange in (5, 15):
                    server.start()
            granted = exchanging.result()
            assert not granted.lost
            worked += [page_number(found.body) for found in granted.leases]
            changes = Changes(done=[found.id for found in granted.leases])
        assert worked == list(range(100))
        assert frontier.tallies() == Tallies(0, 0, 0, 100)
        frontier.close()

    def test_one_that_comes_back_empty_is_told_of_and_harms_nothing(
        self, start: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
    ) -> None:
        server = start(appendonly="no")
        frontier = open_test_frontier(server.url())
        frontier.open()
        frontier.exchange(Changes(added=[page(number) for number in range(9)]), 0)
        before = frontier.exchange(Changes(), 9).leases
        server.kill()
        server.start()
        old = Changes([page(number) for number in range(20, 29)], done=[found.id for found in before])
        granted = frontier.exchange(old, 9)
        assert (granted.lost, granted.unfinished, len(granted.leases)) == (True, 9, 9)
        assert "the data of this crawl is gone" in caplog.messages[-1]
        # Nothing of the new has an id of the old, whose acknowledgements may still come.
        late = Changes(done=[found.id for found in before[:3]], failed=[(found.id, "x") for found in before[3:]])
        assert frontier.exchange(late, 0) == Granted(unfinished=9)
        frontier.close()

    def test_a_replica_is_waited_for_until_it_takes_over(self, start: Callable[..., RedisServer]) -> None:
        server = start()
        frontier = open_test_frontier(server.url(), timeout_seconds=0.3)
        frontier.open()
        with Redis.from_url(server.url()) as client:
            client.replicaof("127.0.0.1", str(server.port))
            with pytest.raises(StoreUnavailable, match=r"not reached within 0\.6 s \(.*read only replica") as error:
                frontier.exchange(Changes(added=[page(1)]), 1)
            one_line(error.value)
            promotion = threading.Timer(0.1, client.replicaof, ("NO", "ONE"))
            promotion.start()
            granted = frontier.exchange(Changes(added=[page(1)]), 1)
            promotion.join()
        assert [page_number(found.body) for found in granted.leases] == [1]
        frontier.close()

    def test_scripts_that_the_server_has_forgotten_are_sent_again(self, redis_url: str) -> None:
        frontier = open_test_frontier(redis_url)
        frontier.open()
        with Redis.from_url(redis_url) as client:
            client.script_flush()
        assert frontier.exchange(Changes(added=[page(1)]), 1).unfinished == 1
        frontier.close()


class TestCutLine:
    """A step of which the client knows only that its line broke."""

    @pytest.fixture
    def cut(self, proxy: Proxy, redis_url: str) -> Iterator[Frontier]:
        frontier = open_test_frontier(f"redis://127.0.0.1:{proxy.port}/{redis_url.rpartition('/')[2]}")
        frontier.open()
        yield frontier
        frontier.close()

    @pytest.mark.parametrize("what", ["cut_answers", "cut_questions"])
    def test_an_exchange_happens_once(self, cut: Frontier, proxy: Proxy, what: str) -> None:
        same = QueuedRequest(page(1).body, "host")
        cut.exchange(Changes(), 0)
        setattr(proxy, what, 1)
        granted = cut.exchange(Changes(added=[page(1), same, same, same]), 2)
        assert (granted.unfinished, granted.known, len(granted.leases), granted.lost) == (4, 0, 2, False)
        assert cut.tallies() == Tallies(pending=2, leased=2, dead=0, seen=1)
        setattr(proxy, what, 1)
        first, second = granted.leases
        granted = cut.exchange(Changes(done=[first.id], dead=[(second.id, "404")]), 5)
        assert (granted.unfinished, granted.set_aside, len(granted.leases)) == (2, 1, 2)
        assert {found.body for found in granted.leases} == {same.body}
        setattr(proxy, what, 1)
        failed = [(found.id, "x") for found in granted.leases]
        assert [found.tries for found in cut.exchange(Changes(failed=failed), 5).leases] == [1, 1]
        assert proxy.cuts == 3

    def test_so_does_every_other_step(self, cut: Frontier, proxy: Proxy) -> None:
        cut.exchange(Changes(added=[page(number) for number in range(6)]), 0)
        leases = cut.exchange(Changes(), 2).leases
        cut.exchange(Changes(dead=[(found.id, "x") for found in leases]), 0)
        proxy.cut_answers = 1
        assert cut.retry_dead() == 2
        assert len(cut.exchange(Changes(), 1).leases) == 1
        # The first answer that `forget` waits for is only the list of owners.
        for _ in range(2):
            proxy.cut_answers = 1
            cut.tallies()
        proxy.cut_answers = 1
        cut.close()
        assert cut.tallies() == Tallies(pending=6, leased=0, dead=0, seen=6)
        assert proxy.cuts == 4

    def test_an_answer_is_only_what_still_holds(self, cut: Frontier, redis_url: str) -> None:
        cut.exchange(Changes(added=[page(1), page(2)]), 0)
        asked = cut._number  # type: ignore[attr-defined]
        assert len(cut.exchange(Changes(), 2).leases) == 2
        # Before we ask again, somebody has given us up, and ends one of the two.
        impatient = open_test_frontier(redis_url, lease_seconds=0.001)
        impatient.open()
        (taken,) = impatient.exchange(Changes(), 1).leases
        impatient.exchange(Changes(done=[taken.id]), 0)
        cut._number = asked  # type: ignore[attr-defined]
        assert cut.exchange(Changes(), 2).leases == ()
        assert cut.exchange(Changes(), 2).lost
        impatient.close()

    def test_a_line_that_breaks_again_and_again_is_given_up(self, proxy: Proxy, redis_url: str) -> None:
        url = f"redis://127.0.0.1:{proxy.port}/{redis_url.rpartition('/')[2]}"
        frontier = open_test_frontier(url, timeout_seconds=0.5)
        frontier.open()
        proxy.cut_answers = 1000
        with pytest.raises(StoreUnavailable, match=r"not reached within 1 s"):
            frontier.exchange(Changes(added=[page(1)]), 1)
        proxy.cut_answers = 0
        assert frontier.exchange(Changes(added=[page(1)]), 0).unfinished == 1
        frontier.close()

    def test_a_step_that_arrives_late_is_refused(self, redis_url: str) -> None:
        frontier = open_test_frontier(redis_url)
        frontier.open()
        asked = frontier._number  # type: ignore[attr-defined]
        frontier.exchange(Changes(added=[page(1)]), 0)
        frontier._number = asked - 1  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="STALE"):
            frontier.exchange(Changes(added=[page(2)]), 0)
        frontier._number = asked + 1  # type: ignore[attr-defined]
        assert frontier.exchange(Changes(), 5).unfinished == 1
        frontier.close()
