"""The test servers themselves: fetched once, shared by a run, and gone when it is."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services import binaries
from tests.services.binaries import ServerError
from tests.services.keeper import shared
from tests.services.process import answers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMELOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "servers"


def gone(port: int, folder: Path, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while answers(port) or folder.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class TestFetching:
    def test_workers_that_ask_at_once_fetch_once(self, empty_cache: Path) -> None:
        fetched = []
        together = threading.Barrier(6)

        def fetch(folder: Path) -> None:
            fetched.append(folder)
            (folder / "program").write_text("whole")

        def ask(_: int) -> str:
            together.wait()
            return (binaries._cached("server", fetch) / "program").read_text()

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(ask, range(6))) == ["whole"] * 6
        assert len(fetched) == 1

    def test_a_fetch_that_fails_leaves_nothing_and_may_be_tried_again(self, empty_cache: Path) -> None:
        def fail(folder: Path) -> None:
            (folder / "program").write_text("half")
            raise ServerError("no network")

        with pytest.raises(ServerError, match="no network"):
            binaries._cached("server", fail)
        assert [path.name for path in empty_cache.iterdir()] == ["server.lock"]
        assert binaries._cached("server", lambda folder: None).is_dir()

    def test_what_an_interrupted_fetch_left_behind_is_cleared_away(self, empty_cache: Path) -> None:
        left = empty_cache / ".server-abc"
        left.mkdir(parents=True)
        (left / "program").write_text("half")
        assert list(binaries._cached("server", lambda folder: None).iterdir()) == []
        assert not left.exists()

    def test_packages_that_apt_does_not_know_are_one_clear_line(self, tmp_path: Path) -> None:
        with pytest.raises(ServerError, match="run `apt-get update` once") as error:
            binaries._unpack_debian(tmp_path, ("no-such-package-anywhere",))
        assert "\n" not in str(error.value)


class TestKeeping:
    def test_a_run_shares_one_server_that_ends_with_the_run(self) -> None:
        run = uuid.uuid4().hex
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as controller:
            with ThreadPoolExecutor(4) as workers:
                places = list(workers.map(lambda _: shared("redis", run, controller.pid), range(4)))
            port = places[0]["port"]
            assert places == [{"port": port}] * 4
            assert answers(port)
            controller.kill()
        assert gone(port, Path(tempfile.gettempdir()) / f"ml-run-{os.getuid()}-{run[:12]}")

    def test_a_server_dies_with_a_test_process_that_is_killed(self) -> None:
        script = "from tests.services.redis import Redis; r = Redis(); print(r.port, r._folder, flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as owner:
            assert owner.stdout is not None
            port, folder = owner.stdout.readline().split()
            assert answers(int(port))
            owner.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 30
        while answers(int(port)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not answers(int(port))
        shutil.rmtree(folder)
