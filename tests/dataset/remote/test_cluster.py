"""Builds on a Ray cluster whose machines share no disk, only an object store."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memeloom.catalog.records import Meme
from memeloom.configs.schema import Config
from memeloom.dataset.flow import memes
from memeloom.dataset.remote.files import Place, RemoteFiles
from tests.dataset.builds import Build, MakeMemes, changed
from tests.dataset.remote.driver import MEMES_IN_A_BLOCK, build_in_small_blocks, build_until_there_are
from tests.services.ray_cluster import in_own_process, ray_cluster

pytestmark = [
    # The suite has each half: `test_remote_build.py` on local processes, and `engine/test_ray_pool.py`.
    pytest.mark.soak,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray"),
    pytest.mark.timeout(600),
]
SPAWN = multiprocessing.get_context("spawn")
SETTINGS: dict[str, Any] = {"keep_dropped": True, "shard_records": 300, "captions_per_template": 200, "languages": []}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders for copies on two machines."""
    return [tmp_path_factory.mktemp(f"machine-{number}") for number in range(2)]


@pytest.fixture(scope="module")
def cluster(machines: list[Path]) -> Iterator[str]:
    with ray_cluster(1, [{"MEMELOOM_CACHE": str(folder)} for folder in machines]) as address:
        yield address


@pytest.mark.parametrize("kills", [[("shards", 2)], [("blocks", 8), ("shards", 2)]], ids=len)
def test_two_machines_give_the_local_bytes_also_if_the_driver_is_killed(
    build: Build, english: MakeMemes, remote_config: Callable[..., Config], files: Callable[[], dict[str, bytes]],
    fill: Callable[[Config, Iterable[Meme]], None], place: Place, machines: list[Path], cluster: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, kills: list[tuple[str, int]],
) -> None:  # fmt: skip
    monkeypatch.setattr(memes, "_MEAN_MEMES", MEMES_IN_A_BLOCK)
    expected = build(english(1000), output=str(tmp_path / "memes"), **SETTINGS)
    config = changed(remote_config(**SETTINGS), engine={"kind": "ray", "workers": 2, "ray_address": cluster})
    for folder, count in kills:
        driver = SPAWN.Process(target=build_until_there_are, args=(config, folder, count))
        driver.start()
        driver.join(200)
        assert driver.exitcode == -signal.SIGKILL
    counts = in_own_process(build_in_small_blocks, config)
    assert files() == expected.files
    assert counts["memes as they were"] == 1000
    for machine in machines:
        assert list(machine.glob("datasets/*/*/plan.json")) == []
    worked = [machine.name for machine in machines if list(machine.glob("datasets/*/*/chosen/*/*.rows"))]
    # On busy processors one machine may finish a short build before the other starts.
    assert len(worked) >= min(len(kills), len(machines))
    assert RemoteFiles(place).has("manifest.json")
