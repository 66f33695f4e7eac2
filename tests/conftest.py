"""Fixtures for the tests of all rooms: stores, real servers and real data."""

import gc
import os
import shutil
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pymongo
import pytest
from hypothesis import HealthCheck, settings

from memeloom.configs.load import load_config
from memeloom.configs.schema import S3, Store
from memeloom.engine.pool import available_cores
from tests.services.ceph import Gateway, S3Access, make_bucket
from tests.services.keeper import shared
from tests.services.mongod import Mongod
from tests.services.redis import DATABASES, flush

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_ROOT = Path(__file__).parents[1]

# A slow machine fails no test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_xdist_auto_num_workers() -> int:
    """Start two workers more than there are processors: tests wait for servers, deadlines and other processes."""
    return available_cores() + 2


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spare each worker four of its fifteen seconds of importing all tests."""
    gc.disable()
    if session.config.args == session.config.getini("testpaths"):
        import scrapy.core.downloader.contextfactory  # noqa: F401 -- reads the sources of all modules loaded before
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the whole demo: started last, it would leave the other workers idle for a minute."""
    items.sort(key=lambda item: item.path.name != "test_installed.py")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real captions, templates and pages: $MEMELOOM_DATA, else ../shared/data beside the project."""
    named = os.environ.get("MEMELOOM_DATA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder (set MEMELOOM_DATA)")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Chrome]":
    """A real Chromium, without a display."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no Chromium: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with Chrome(options, ChromeService(driver)) as chrome:
        chrome.set_page_load_timeout(60)
        yield chrome


@pytest.fixture
def store_config(tmp_path: Path) -> Store:
    """The embedded default in `tmp_path`: SQLite and a folder."""
    store = load_config(environment={}).store
    return store.model_copy(
        update={"documents": f"sqlite:///{tmp_path}/catalog.db", "blobs": str(tmp_path / "blobs")}
    )  # fmt: skip


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Path:
    """A folder that all workers of this test run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"run-{testrun_uid}"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def _run(request: pytest.FixtureRequest, testrun_uid: str) -> tuple[str, int]:
    """Id of this test run, and of its controlling process: xdist's controller, or this one."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return testrun_uid, os.getppid() if is_worker else os.getpid()


@pytest.fixture
def mongo_url(_run: tuple[str, int]) -> Iterator[str]:
    """A fresh database on a real MongoDB, dropped afterwards."""
    port = shared("mongo", *_run)["port"]
    url = f"mongodb://127.0.0.1:{port}/test_{uuid.uuid4().hex[:16]}?directConnection=true"
    yield url
    with pymongo.MongoClient[dict[str, object]](url, serverSelectionTimeoutMS=10_000) as client:
        client.drop_database(client.get_default_database())


@pytest.fixture
def mongo_server() -> Iterator[Mongod]:
    """A private mongod, which the test may stop and start."""
    server = Mongod()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_access(_run: tuple[str, int]) -> S3Access:
    """A real S3 server, shared by the whole run."""
    return S3Access(**shared("s3", *_run))


@pytest.fixture
def s3_store(s3_access: S3Access, store_config: Store) -> Store:
    """Settings with a fresh bucket on a real S3 server."""
    return _in_new_bucket(store_config, s3_access, s3_access.endpoint)


@pytest.fixture
def s3_server(s3_access: S3Access) -> Iterator[Gateway]:
    """A private S3 gateway to the shared data, which the test may kill and start."""
    gateway = Gateway(s3_access.config)
    yield gateway
    gateway.stop()


@pytest.fixture
def s3_server_store(s3_server: Gateway, s3_access: S3Access, store_config: Store) -> Store:
    """Settings with a fresh bucket behind `s3_server`."""
    return _in_new_bucket(store_config, s3_access, s3_server.endpoint)


@pytest.fixture
def redis_urls(redis_url: str) -> Iterator[str]:
    """A frontier on two empty databases on a real Redis."""
    server, _, database = redis_url.rpartition("/")
    second = (int(database) + DATABASES // 2) % DATABASES
    port = int(server.rpartition(":")[2])
    flush(port, second)
    yield f"{redis_url},{server}/{second}"
    flush(port, second)


@pytest.fixture
def redis_url(_run: tuple[str, int]) -> Iterator[str]:
    """An empty database on a real Redis, emptied afterwards; no two workers get the same."""
    port = int(shared("redis", *_run)["port"])
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    database = int(worker.removeprefix("gw")) % DATABASES
    flush(port, database)
    yield f"redis://127.0.0.1:{port}/{database}"
    flush(port, database)


def _in_new_bucket(store: Store, access: S3Access, endpoint: str) -> Store:
    bucket = f"test-{uuid.uuid4().hex[:16]}"
    make_bucket(access, bucket)
    s3 = S3.model_validate(
        {
            "endpoint": endpoint,
            "region": "us-east-1",
            "allow_http": False,
            "access_key": access.access_key,
            "secret_key": access.secret_key,
        }
    )
    return store.model_copy(update={"blobs": f"s3://{bucket}/blobs", "s3": s3})
