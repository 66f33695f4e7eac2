"""One budget for each host, and one quota of memes, over all owners, spiders and processes; on SQLite and Redis."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from memeloom.scrapers.frontier.contract import Changes, Frontier, Limits, QueuedRequest, RequestLease
from memeloom.scrapers.frontier.owner import Owner, _started
from tests.scrapers.frontier_workers import open_test_frontier, page, page_number

FOREVER = 10_000.0
SLOW = Limits(delay_seconds=FOREVER)
Open = Callable[..., Frontier]
# The tables of a frontier's file of version 1.
VERSION_1 = """
CREATE TABLE requests (id INTEGER PRIMARY KEY AUTOINCREMENT, spider TEXT NOT NULL, state TEXT NOT NULL,
    suspect INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL, host TEXT NOT NULL, body TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, fingerprint BLOB, ready_at REAL, owner TEXT, reason TEXT);
CREATE INDEX ready ON requests (spider, suspect, priority DESC, id, host, state) WHERE state = 'ready';
CREATE INDEX waiting ON requests (spider, ready_at) WHERE state = 'waiting';
CREATE INDEX leased ON requests (spider, owner) WHERE state = 'leased';
CREATE INDEX dead ON requests (spider, fingerprint) WHERE state = 'dead';
CREATE TABLE seen (spider TEXT, fingerprint BLOB, PRIMARY KEY (spider, fingerprint)) WITHOUT ROWID;
CREATE TABLE owners (spider TEXT, name TEXT, seen_at REAL NOT NULL, PRIMARY KEY (spider, name)) WITHOUT ROWID;
CREATE TABLE rests (spider TEXT, host TEXT, until REAL NOT NULL, PRIMARY KEY (spider, host)) WITHOUT ROWID;
CREATE TABLE marks (spider TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (spider, name)) WITHOUT ROWID;
CREATE TABLE spiders (name TEXT PRIMARY KEY, unfinished INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
PRAGMA application_id = 1835430511;
PRAGMA user_version = 1;
"""


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/frontier.db"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def another(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens another owner. process: the id of the process that it claims to belong to; machine: its machine."""
    here = Owner.here()
    with ExitStack() as stack:

        def build(
            limits: Limits,
            spider: str = "test",
            *,
            process: int = here.process,
            machine: str = here.machine,
            **more: Any,
        ) -> Frontier:
            def owner() -> Owner:
                return Owner(machine, process, _started(process) or "1", os.urandom(4).hex())

            with monkeypatch.context() as patch:
                patch.setattr(Owner, "here", owner)
                frontier = open_test_frontier(url, spider, limits=limits, **more)
            stack.callback(frontier.close)
            frontier.open()
            return frontier

        yield build


@pytest.fixture
def ended() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def request(number: int, host: str = "host", **facts: Any) -> QueuedRequest:
    return QueuedRequest(page(number).body, host, **facts)


def fill(frontier: Frontier, count: int, host: str = "host") -> None:
    frontier.exchange(Changes(added=[request(number, host) for number in range(count)]), 0)


def lease(frontier: Frontier, want: int = 16, **changes: Any) -> list[RequestLease]:
    return list(frontier.exchange(Changes(**changes), want).leases)


class TestDelay:
    def test_requests_of_all_spiders_keep_the_delay(self, another: Open) -> None:
        owners = [another(Limits(0.15), spider) for spider in ("a", "b", "a")]
        for owner in owners[:2]:
            fill(owner, 3)
        times: list[tuple[float, float]] = []
        while len(times) < 6:
            for owner in owners:
                before = time.monotonic()
                granted = owner.exchange(Changes(), 16)
                if granted.leases:
                    times += [(before, time.monotonic())]
                    assert len(granted.leases) == 1
                elif owner.tallies().pending:
                    assert 0 < granted.next_seconds <= 0.15
        assert all(later[1] - earlier[0] >= 0.149 for earlier, later in pairwise(times))

    def test_other_hosts_do_not_wait(self, another: Open) -> None:
        one, two = another(SLOW), another(SLOW)
        fill(one, 3, "a")
        fill(one, 3, "b")
        assert [found.host for found in lease(one)] == ["a", "b"]
        fill(one, 1, "c")
        granted = two.exchange(Changes(), 16)
        assert [found.host for found in granted.leases] == ["c"]
        assert 0 < granted.next_seconds <= 1

    def test_a_turn_is_charged_like_a_request(self, another: Open) -> None:
        one, two = another(SLOW, "a"), another(SLOW, "b")
        assert one.turn("host") == 0
        assert FOREVER - 60 < two.turn("host") <= FOREVER
        fill(two, 1)
        assert lease(two) == []
        fill(two, 1, "other")
        assert len(lease(two)) == 1
        assert one.turn("other") > 0
        assert one.turn("third") == 0

    def test_without_a_delay_a_turn_waits_for_backoffs_only(self, another: Open) -> None:
        one, two = another(Limits(), "a"), another(Limits(), "b")
        assert [one.turn("host") for _ in range(3)] == [0, 0, 0]
        two.exchange(Changes(rests={"host": FOREVER}), 0)
        assert one.turn("host") > FOREVER - 60

    def test_a_host_may_be_slower_than_the_delay_but_not_faster(self, another: Open) -> None:
        one, two = another(Limits(), "a"), another(Limits(FOREVER), "b")
        one.exchange(Changes(paces={"slow": 500.0, "fast": 0.0}), 0)
        fill(one, 2, "slow")
        fill(one, 2, "fast")
        assert [found.host for found in lease(one)] == ["slow", "fast", "fast"]
        assert 400 < one.turn("slow") <= 500
        assert (one.turn("fast"), two.turn("fast")) == (0, 0)
        assert two.turn("fast") > 500


class TestBackoff:
    def test_a_backoff_holds_for_all_spiders_and_later_crawls(self, another: Open) -> None:
        one, two = another(Limits(), "a"), another(Limits(), "b")
        fill(two, 1)
        one.exchange(Changes(rests={"host": FOREVER}), 0)
        assert lease(two) == []
        one.close()
        two.forget()
        two.close()
        later = another(Limits(), "b")
        fill(later, 1)
        assert lease(later) == []

    def test_an_exchange_tells_the_backoffs_of_leased_hosts(self, another: Open) -> None:
        one, two = another(Limits(), "a"), another(Limits(), "b")
        for host in ('"a"\n', "b", "c"):
            fill(one, 1, host)
        held = [found.id for found in lease(one)]
        two.exchange(Changes(rests={'"a"\n': 500.0, "b": 0.001, "other": 500.0}), 0)
        time.sleep(0.002)
        rests = one.exchange(Changes(), 0).rests
        assert list(rests) == ['"a"\n']
        assert 400 < rests['"a"\n'] <= 500
        assert two.exchange(Changes(), 0).rests == {}
        one.exchange(Changes(done=held), 0)
        assert one.exchange(Changes(), 0).rests == {}


class TestConcurrency:
    LIMITS = Limits(delay_seconds=0.0001, concurrency=2)

    @staticmethod
    def lease_all(frontier: Frontier, **changes: Any) -> list[RequestLease]:
        """Lease until nothing is due within a time much longer than the delay."""
        found = lease(frontier, **changes)
        for _ in range(3):
            time.sleep(0.001)
            found += lease(frontier)
        return found

    def test_leases_of_a_host_are_counted_over_all_owners(self, another: Open) -> None:
        one, two = another(self.LIMITS, "a"), another(self.LIMITS, "b")
        fill(one, 9)
        fill(two, 9)
        (first, second) = self.lease_all(one)
        assert self.lease_all(two) == []
        (third,) = self.lease_all(one, released=[first.id])
        one.exchange(Changes(failed=[(second.id, "x")]), 0)
        assert len(self.lease_all(two)) == 1
        one.exchange(Changes(dead=[(third.id, "x")]), 0)
        assert len(self.lease_all(two)) == 1
        one.close()
        two.close()
        assert len(self.lease_all(another(self.LIMITS, "a"))) == 2

    def test_leases_of_crashed_processes_do_not_count(self, another: Open, ended: int) -> None:
        crashed = another(self.LIMITS, "a", process=ended)
        fill(crashed, 9)
        assert len(self.lease_all(crashed)) == 2
        survivor = another(self.LIMITS, "b")
        fill(survivor, 9)
        assert len(self.lease_all(survivor)) == 2

    def test_leases_of_silent_machines_do_not_count(self, another: Open) -> None:
        silent = another(self.LIMITS, "a", machine="elsewhere")
        fill(silent, 9)
        assert len(self.lease_all(silent)) == 2
        patient = another(self.LIMITS, "b")
        fill(patient, 9)
        assert self.lease_all(patient) == []
        time.sleep(0.05)
        impatient = another(self.LIMITS, "c", lease_seconds=0.05)
        fill(impatient, 9)
        assert len(self.lease_all(impatient)) == 2

    def test_requests_of_all_priorities_share_the_budget_of_their_host(self, another: Open) -> None:
        limits = Limits(concurrency=3)
        one, neighbour = another(limits), another(limits, process=1)
        added = [request(number, "host", priority=number % 3) for number in range(9)]
        one.exchange(Changes(added=[*added, request(9, "other", priority=1)]), 0)
        # A request that returns has a place among those that were never leased.
        (first, *_) = held = lease(one)
        assert [page_number(found.body) for found in held] == [2, 5, 8, 9]
        one.exchange(Changes(released=[first.id]), 0)
        assert [page_number(found.body) for found in lease(one)] == [2]
        one.exchange(Changes(released=[first.id], done=[held[1].id, held[2].id]), 0)
        assert [page_number(found.body) for found in lease(neighbour)] == [2, 1, 4]

    def test_without_a_delay_only_a_single_process_leases_more(self, another: Open) -> None:
        limits = Limits(concurrency=3)
        single = another(limits)
        fill(single, 30)
        held = lease(single, 10)
        assert len(held) == 10
        neighbour = another(limits, "b", process=1)
        fill(neighbour, 30)
        assert lease(neighbour) == []
        assert lease(single, done=[found.id for found in held[:7]]) == []
        assert len(lease(single, done=[held[7].id])) == 1
        single.exchange(Changes(done=[found.id for found in held]), 0)
        assert len(lease(neighbour)) == 2
        assert len(lease(neighbour)) == 0
        single.close()
        assert len(lease(neighbour)) == 16


class TestMemes:
    LIMITS = Limits(max_memes=5)

    @staticmethod
    def admit(frontier: Frontier, asked: int, landed: int = 0) -> tuple[int, int]:
        granted = frontier.exchange(Changes(admit=asked, landed=landed), 0)
        return granted.admitted, granted.landed

    def test_no_more_are_admitted_than_all_may_land(self, another: Open) -> None:
        one, two = another(self.LIMITS, "a"), another(self.LIMITS, "b")
        assert self.admit(one, 3) == (3, 0)
        assert self.admit(two, 9) == (2, 0)
        assert self.admit(one, 1, landed=2) == (0, 2)
        assert self.admit(two, 9, landed=2) == (0, 4)
        one.close()
        assert self.admit(two, 9) == (1, 4)
        assert self.admit(two, 9, landed=1) == (0, 5)

    def test_a_crashed_process_returns_what_it_did_not_land(self, another: Open, ended: int) -> None:
        survivor, crashed = another(self.LIMITS, "a"), another(self.LIMITS, "b", process=ended)
        assert self.admit(crashed, 4) == (4, 0)
        assert self.admit(crashed, 0, landed=1) == (0, 1)
        assert self.admit(survivor, 9) == (1, 1)
        assert self.admit(another(self.LIMITS, "c"), 9) == (3, 1)

    def test_a_crawl_begins_when_its_first_owner_opens(self, another: Open) -> None:
        one = another(self.LIMITS, "a")
        assert self.admit(one, 3) == (3, 0)
        self.admit(one, 0, landed=3)
        time.sleep(0.05)
        two = another(self.LIMITS, "b")
        granted = two.exchange(Changes(admit=9), 0)
        assert (granted.admitted, granted.landed) == (2, 3)
        assert 0.05 <= granted.elapsed_seconds < 60
        one.close()
        two.close()
        later = another(self.LIMITS, "b").exchange(Changes(admit=9), 0)
        assert (later.admitted, later.landed) == (5, 0)
        assert later.elapsed_seconds < granted.elapsed_seconds + 60

    def test_without_a_limit_all_are_admitted(self, another: Open) -> None:
        assert self.admit(another(Limits()), 1000) == (1000, 0)


class TestOlderVersions:
    def test_a_file_of_version_1_is_upgraded(self, tmp_path: Path) -> None:
        path = tmp_path / "frontier.db"
        with closing(sqlite3.connect(path)) as old:
            old.executescript(VERSION_1)
            old.execute(
                "INSERT INTO requests (spider, state, priority, host, body) VALUES ('test', 'ready', 9, 'free', ?)",
                (page(6).body,),
            )
            columns = "(spider, state, priority, host, body, tries, owner, ready_at, reason)"
            old.executemany(
                f"INSERT INTO requests {columns} VALUES ('test', ?, 0, 'host', ?, 0, ?, ?, ?)",
                [
                    ("ready", page(1).body, None, None, None),
                    ("leased", page(2).body, "elsewhere|1|1|x", None, None),
                    ("dead", page(3).body, None, 1.0, "gone"),
                ],
            )
            old.execute("INSERT INTO owners VALUES ('test', 'elsewhere|1|1|x', 0)")
            old.execute("INSERT INTO spiders VALUES ('test', 3)")
            old.executemany("INSERT INTO rests VALUES (?, 'host', ?)", [("test", time.time() + 99), ("b", 1.0)])
            old.commit()
        with closing(open_test_frontier(f"sqlite:///{path}", limits=Limits(5.0, 1, 9))) as frontier:
            assert frontier.open() == 3
            assert [dead.reason for dead in frontier.dead()] == ["gone"]
            assert 60 < frontier.turn("host") <= 99
            granted = frontier.exchange(Changes(added=[request(4, "other"), request(5, "other")], admit=1), 5)
            assert ([found.host for found in granted.leases], granted.admitted) == (["free", "other"], 1)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (4,)

    def test_fingerprints_of_version_3_are_known(self, tmp_path: Path) -> None:
        path = tmp_path / "frontier.db"
        prints = [b"", b"a", b"a" * 16, b"a" * 17, bytes(16)]
        with closing(open_test_frontier(f"sqlite:///{path}")) as frontier:
            frontier.open()
            frontier.exchange(Changes(added=[page(1)]), 0)
        with closing(sqlite3.connect(path)) as old:
            old.executescript("DROP TABLE seen; DROP TABLE recent; DROP TABLE fingerprints; PRAGMA user_version = 3;")
            old.execute("CREATE TABLE seen (spider TEXT, fingerprint BLOB, PRIMARY KEY (spider, fingerprint))")
            old.executemany(
                "INSERT INTO seen VALUES (?, ?)", [(name, each) for name in ("a", "test") for each in prints]
            )
            old.commit()
        with closing(open_test_frontier(f"sqlite:///{path}")) as frontier:
            assert frontier.open() == 1
            assert frontier.tallies().seen == len(prints)
            added = [QueuedRequest("{}", "host", each) for each in (*prints[1:], b"new", b"a" * 15)]
            assert frontier.exchange(Changes(added=added), 0).known == len(prints) - 1
            assert frontier.tallies().seen == len(prints) + 2

    def test_backoffs_that_an_older_version_stored_on_redis_hold(self, redis_url: str) -> None:
        with Redis.from_url(redis_url) as client:
            client.zadd("{memeloom:test}:rests", {"host": time.time() + 99})
            with closing(open_test_frontier(redis_url, "another")) as frontier:
                frontier.open()
                frontier.exchange(Changes(rests={"host": 9.0}), 0)
            with closing(open_test_frontier(redis_url)) as frontier:
                frontier.open()
                assert 60 < frontier.turn("host") <= 99
            assert not client.exists("{memeloom:test}:rests")

    def test_a_queue_that_an_older_version_stored_on_redis_is_leased_in_order(self, redis_url: str) -> None:
        with Redis.from_url(redis_url) as client:
            client.set("{memeloom:test}:last_id", 9)
            for number, host, priority in ((1, "a", 0), (2, "b", 5), (3, "a", 0), (4, "a", 5)):
                body = page(number).body
                client.hset("{memeloom:test}:requests", f"{number:016}", f"{priority} 0 {len(host)} {host}{body}")
                client.zadd("{memeloom:test}:ready", {f"{number:016}{host}": -priority})
            with closing(open_test_frontier(redis_url)) as frontier:
                assert frontier.open() == 4
                granted = frontier.exchange(Changes(), 9)
                assert [page_number(found.body) for found in granted.leases] == [2, 4, 1, 3]
            assert not client.exists("{memeloom:test}:ready")

    def test_requests_that_an_older_version_queued_by_host_are_leased_among_new_ones(self, redis_url: str) -> None:
        with Redis.from_url(redis_url) as client:
            client.set("{memeloom:test}:last_id", 9)
            for number, priority in ((1, 5), (2, 0)):
                record = f"{priority} 0 4 host{page(number).body}"
                client.hset("{memeloom:test}:requests", f"{number:016}", record)
                client.zadd("{memeloom:test}:ready:host", {f"{number:016}": -priority})
            client.zadd("{memeloom:test}:heads", {f"{1:016}host": -5})
            with closing(open_test_frontier(redis_url)) as frontier:
                assert frontier.open() == 2
                added = [request(3, priority=5), request(4, priority=9), request(5, "other")]
                granted = frontier.exchange(Changes(added=added), 9)
                assert [page_number(found.body) for found in granted.leases] == [4, 1, 3, 2, 5]

    def test_a_long_queue_of_an_older_version_is_converted_in_steps(
        self, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memeloom.scrapers.frontier.redis.WAKES", 3)
        with Redis.from_url(redis_url) as client:
            for number in range(8):
                client.hset("{memeloom:test}:requests", f"{number:016}", f"0 0 4 host{page(number).body}")
                client.zadd("{memeloom:test}:ready", {f"{number:016}host": 0})
            with closing(open_test_frontier(redis_url)) as frontier:
                assert frontier.open() == 8
                leased: list[RequestLease] = []
                left = []
                for _ in range(4):
                    leased += frontier.exchange(Changes(), 2).leases
                    left.append(client.zcard("{memeloom:test}:ready"))
            assert [page_number(found.body) for found in leased] == list(range(8))
            assert left == [5, 2, 0, 0]
