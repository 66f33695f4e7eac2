"""The stage with pictures that crash, hang or bloat workers, and with lost workers, runs, servers and disks."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from memeloom.catalog.documents import DocumentStore, StageCounts, Where
from memeloom.catalog.errors import StoreUnavailable
from memeloom.catalog.records import Image, Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Store
from memeloom.ocr.stage import failed_memes, read_memes
from tests.ocr.fake_engine import (
    BREAK,
    DIE,
    DIE_ONCE,
    FAIL,
    GROW,
    HANG,
    READ,
    WAIT,
    begun,
    go,
    open_fake,
    told,
)
from tests.services.mongod import Mongod
from tests.services.ray_cluster import ray_cluster

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ENGINE", str(tmp_path / "begun.log"))


@pytest.fixture
def config(store_config: Store, tmp_path: Path) -> Config:
    overrides = ["ocr.engine=tesseract", "ocr.batch=4", "ocr.attempts=2", "engine.workers=2"]
    return load_config(overrides=[*overrides, f"runs={tmp_path}/runs"], environment={}).model_copy(
        update={"store": store_config}
    )


def changed(config: Config, store: dict[str, object] | None = None, workers: int = 2, **ocr: object) -> Config:
    return config.model_copy(
        update={
            "ocr": config.ocr.model_copy(update=ocr),
            "store": config.store.model_copy(update=store or {}),
            "engine": config.engine.model_copy(update={"workers": workers}),
        }
    )


def fill(config: Config, *fates: int) -> DocumentStore:
    """A catalog with a meme for each of `fates`: test:000, test:001 …"""
    documents, blobs = open_documents(config.store), open_blobs(config.store)
    for number, fate in enumerate(fates):
        data = told(fate, number)
        image = Image(
            key=blobs.put(data), width=40, height=30, format="png", bytes=len(data), phash64="0" * 16,
            phash256="0" * 64,
        )  # fmt: skip
        documents.upsert([Meme(id=f"test:{number:03}", source="test", image=image, fetched_at=LONG_AGO)])
    return documents


def read(config: Config, **options: bool) -> Summary:
    return read_memes(config, Silent(), open_engine=open_fake, **options)


def work(documents: DocumentStore) -> StageCounts:
    return documents.counts().stages["ocr"]


def times_begun() -> Counter[str]:
    return Counter(picture for _, picture in begun())


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_a_picture_that_crashes_its_worker_fails_and_the_others_are_read_once(config: Config) -> None:
    documents = fill(config, READ, DIE, *[READ] * 6)
    summary = read(config)
    assert summary.counts == {"memes": 8, "kept": 7, "dropped": 0, "failed": 1}
    assert summary.reasons == {"worker died": 1}
    assert list(failed_memes(config)) == [("test:001", "worker died")]
    assert sorted(times_begun().values()) == [1] * 7 + [2]
    assert documents.count(Where(read=True)) == 7


def test_hanging_native_code_times_out_its_picture_only(config: Config) -> None:
    fill(config, HANG, *[READ] * 5)
    hasty = changed(config, {"timeout_seconds": 0.5}, image_seconds=0.5)
    summary = read(hasty)
    assert summary.counts == {"memes": 6, "kept": 5, "dropped": 0, "failed": 1}
    assert summary.reasons == {"timeout": 1}
    assert sorted(times_begun().values()) == [1] * 5 + [2]


def test_a_crash_by_chance_costs_one_attempt(config: Config) -> None:
    fill(config, READ, DIE_ONCE, READ)
    summary = read(changed(config, workers=1))
    assert summary.counts == {"memes": 3, "kept": 3, "dropped": 0, "failed": 0}
    assert summary.reasons == {}


def test_unexpected_errors_of_an_engine_are_counted(config: Config) -> None:
    fill(config, BREAK, FAIL, READ)
    summary = read(config)
    assert summary.counts == {"memes": 3, "kept": 1, "dropped": 0, "failed": 2}
    assert summary.reasons == {"unexpected builtins.ValueError": 1, "engine failed": 1}
    assert sorted(times_begun().values()) == [1, 2, 2]


def test_failed_memes_are_retried_on_request_only(config: Config) -> None:
    documents = fill(config, FAIL, READ)
    read(config)
    assert read(config).counts["memes"] == 0
    assert times_begun()["[0, 0]"] == 2
    assert read(config, retry_failed=True).reasons == {"engine failed": 1}
    assert times_begun() == {"[0, 0]": 4, "[0, 1]": 1}
    assert work(documents).failed == 1


def test_an_oversized_worker_is_replaced(config: Config) -> None:
    fill(config, READ, GROW, READ, READ)
    assert read(changed(config, workers=1, worker_memory_mb=450)).counts["kept"] == 4
    first, second, third, fourth = (pid for pid, _ in begun())
    assert first == second
    assert third == fourth != first


def test_too_little_memory_for_any_worker_is_one_clear_error(config: Config) -> None:
    documents = fill(config, READ)
    with pytest.raises(ConfigError, match=r"^ocr\.worker_memory_mb: 5 is too little; a worker holds \d+ MB before"):
        read(changed(config, worker_memory_mb=5))
    assert work(documents) == StageCounts(pending=1)


def test_a_killed_worker_is_replaced(config: Config) -> None:
    documents = fill(config, WAIT, *[READ] * 5)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(read, changed(config, workers=1))
        wait_for(begun)
        os.kill(begun()[0][0], signal.SIGKILL)
        go()
        assert running.result(60).counts == {"memes": 6, "kept": 6, "dropped": 0, "failed": 0}
    assert sorted(times_begun().values()) == [1] * 5 + [2]
    assert work(documents) == StageCounts(done=6)


def test_leases_are_extended_while_workers_are_busy(config: Config) -> None:
    fill(config, WAIT, WAIT, READ, READ)
    brief = changed(config, lease_seconds=1.0)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(read, brief)
        wait_for(lambda: len(begun()) == 2)
        time.sleep(1.5)  # longer than a lease
        assert open_documents(config.store).lease("ocr", 4, 60, 2) == []
        go()
        assert running.result(60).counts == {"memes": 4, "kept": 4, "dropped": 0, "failed": 0}


SCRIPT = (
    "import sys\nfrom configs.schema import Config\nfrom configs.progress import Silent\n"
    "from memeloom.ocr.stage import read_memes\nfrom tests.ocr.fake_engine import open_fake\n"
    "if __name__ == '__main__':\n"
    "    read_memes(Config.model_validate_json(sys.argv[1]), Silent(), open_engine=open_fake)\n"
)


@pytest.fixture
def started(tmp_path: Path) -> Callable[[Config], subprocess.Popen[bytes]]:
    """A run in a process of its own."""
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)

    def start(config: Config) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, script, config.model_dump_json()], env=environment, stderr=subprocess.PIPE
        )

    return start


Started = Callable[[Config], subprocess.Popen[bytes]]


def test_kill_9_of_a_run_loses_nothing_and_repeats_nothing(config: Config, started: Started) -> None:
    documents = fill(config, *[READ] * 8, WAIT, WAIT, *[READ] * 4)
    brief = changed(config, lease_seconds=2.0)
    run = started(brief)
    wait_for(lambda: work(documents).done >= 4 if begun() else False)
    run.kill()
    run.communicate(timeout=10)
    survived = {meme.id: meme for meme in documents.scan(Where(read=True))}
    assert 4 <= len(survived) < 14
    go()
    wait_for(lambda: read(brief).stage == "ocr" and work(documents).done == 14)
    assert documents.count(Where(read=True)) == 14
    assert {name: documents.get(name) for name in survived} == survived
    assert work(documents) == StageCounts(done=14)


def test_ctrl_c_returns_unread_memes_without_an_attempt(config: Config, started: Started) -> None:
    documents = fill(config, *[WAIT] * 8)
    run = started(config)
    wait_for(lambda: len(begun()) == 2)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert work(documents) == StageCounts(pending=8)
    assert {lease.attempt for lease in documents.lease("ocr", 8, 60, 2)} == {1}


def test_a_lost_server_is_one_error_and_the_next_run_continues(config: Config, mongo_server: Mongod) -> None:
    store = {"documents": mongo_server.url("test"), "timeout_seconds": 1.0}
    remote = changed(config, store, lease_seconds=2.0)
    documents = fill(remote, *[READ] * 6, WAIT, *[READ] * 6)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(read, changed(remote, workers=1))
        wait_for(lambda: times_begun()["[0, 6]"])
        mongo_server.kill()
        go()
        with pytest.raises(StoreUnavailable, match=r"^MongoDB at .*; is the server running") as error:
            running.result(60)
    assert "\n" not in str(error.value)
    assert error.value.summary is not None
    mongo_server.start()
    done = documents.count(Where(read=True))
    wait_for(lambda: read(remote).stage == "ocr" and work(documents).done == 13)
    assert documents.count(Where(read=True)) == 13 > done
    documents.close()


@pytest.mark.soak
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip
def test_on_ray_bad_pictures_fail_and_the_others_are_read_once(config: Config) -> None:
    hasty = changed(config, {"timeout_seconds": 1.5}, image_seconds=1.5)
    documents = fill(hasty, READ, DIE, HANG, DIE_ONCE, *[READ] * 8)
    with ray_cluster(processors=2) as address:
        there = hasty.engine.model_copy(update={"kind": "ray", "ray_address": address})
        summary = read(hasty.model_copy(update={"engine": there}))
    assert summary.counts == {"memes": 12, "kept": 10, "dropped": 0, "failed": 2}
    assert summary.reasons == {"worker died": 1, "timeout": 1}
    assert sorted(times_begun().values()) == [1] * 9 + [2] * 3
    assert work(documents) == StageCounts(done=10, failed=2, reasons=summary.reasons)


FULL = """
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from memeloom.configs.schema import Config
from memeloom.catalog.errors import StoreFull
from tests.ocr.fake_engine import READ, WAIT, begun, go
from tests.ocr.test_stage_workers import fill, read, wait_for, work
if __name__ == "__main__":
    config, disk = Config.model_validate_json(sys.argv[1]), Path(sys.argv[2])
    documents = fill(config, WAIT, *[READ] * 11)
    with ThreadPoolExecutor(1) as thread, (disk / "filler").open("wb", buffering=0) as filler:
        running = thread.submit(read, config)
        wait_for(begun)
        with suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        go()
        try:
            running.result(60)
        except StoreFull as error:
            print(error)
    (disk / "filler").unlink()
    wait_for(lambda: read(config).stage and work(documents).done == 12)
    print(work(documents).done)
"""
NAMESPACE = ("unshare", "--map-root-user", "--mount")


@pytest.mark.soak
def test_a_full_disk_is_one_error_and_the_next_run_continues(config: Config, tmp_path: Path) -> None:
    allowed = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True)
    if not allowed or allowed.returncode:
        pytest.skip("a small disk needs a mount namespace, and this system does not allow one")
    disk, script = tmp_path / "disk", tmp_path / "full.py"
    disk.mkdir()
    script.write_text(FULL)
    small = changed(config, {"documents": f"sqlite:///{disk}/catalog.db"}, lease_seconds=2.0)
    command = f'mount -t tmpfs -o size=4m none "{disk}" && exec "$@"'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", command, "sh", sys.executable, script, small.model_dump_json(), disk],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{disk}/catalog.db: the disk is full; make room and run again", "12"]
