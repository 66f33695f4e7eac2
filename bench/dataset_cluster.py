"""A build on a Ray cluster of two nodes that share no disk, against S3, its driver killed twice: the local bytes?

Both nodes and the driver have folders of their own for copies; S3 is Ceph's gateway with its objects in memory. The
catalog is that of `bench.dataset_build`.
"""

import filecmp
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.dataset_build import ROOT, Built, build, grow, real_catalog
from bench.rows import Row
from memeloom.configs.load import load_config
from memeloom.configs.schema import Store
from memeloom.dataset.remote.files import Place, RemoteFiles, place_at
from memeloom.dataset.remote.mirror import local_folder
from tests.services.ceph import Cluster, S3Access, make_bucket
from tests.services.ray_cluster import ray_cluster

_BUCKET = "bench"
_OUTPUT = f"s3://{_BUCKET}/dataset"
_GIGABYTES = 12
# The first kill comes while captions are filtered, the second while shards are written.
_MEMES_BEFORE_A_KILL, _SHARD_FILES = 8192, 5


def cluster_rows(data: Path, scale: int) -> Iterator[Row]:
    """Yield a row for the build on one machine, and one for the cluster. scale: times the data."""
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as name:
        yield from _rows(data, scale, Path(name))


def _rows(data: Path, scale: int, folder: Path) -> Iterator[Row]:
    catalog = real_catalog(data, folder)
    grow(catalog, scale)
    local = build(catalog, folder / "local" / "dataset")
    yield _local_row(local)
    machines = [folder / f"machine-{number}" for number in range(3)]
    s3 = Cluster(_GIGABYTES)
    try:
        make_bucket(s3.access, _BUCKET)
        with ray_cluster(1, [{"MEMELOOM_CACHE": str(machine)} for machine in machines[:2]]) as address:
            os.environ["MEMELOOM_CACHE"] = str(machines[2])
            driver = _Driver(catalog, s3.access, address)
            blocks = local.memes // _MEMES_BEFORE_A_KILL
            killed = [
                driver.kill_when(lambda: len(_names(driver.place, "blocks/")) > blocks),
                driver.kill_when(lambda: len(_names(driver.place, "shards/")) > _SHARD_FILES),
            ]
            last = build(catalog, _OUTPUT, *driver.settings)
        same = _same(folder / "local" / "dataset", driver.place)
    finally:
        s3.stop()
    yield _cluster_row(last, killed, same, machines)


class _Driver:
    """The builder on the cluster."""

    def __init__(self, catalog: Path, access: S3Access, ray_address: str) -> None:
        self._catalog = catalog
        self.settings = [
            f"store.s3.endpoint={access.endpoint}",
            f"store.s3.access_key={access.access_key}", f"store.s3.secret_key={access.secret_key}",
            "store.timeout_seconds=60", "engine.kind=ray", "engine.workers=2", f"engine.ray_address={ray_address}",
        ]  # fmt: skip
        store: Store = load_config(overrides=self.settings, environment={}).store
        self.place = place_at(_OUTPUT, store)

    def kill_when(self, is_time: Callable[[], bool]) -> float:
        """Start a build, kill it when it is time, and return its seconds."""
        command = [sys.executable, "-m", "bench.dataset_worker", str(self._catalog), _OUTPUT, *self.settings]
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        while not is_time():
            if process.poll() is not None:
                raise SystemExit(f"the driver ended with {process.returncode} before it could be killed")
            time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return time.perf_counter() - began


def _names(place: Place, prefix: str) -> list[str]:
    return list(RemoteFiles(place.beside(f".{place.name}.work")).names(prefix))


def _same(local: Path, place: Place) -> bool:
    """Return True if all files that the manifest names, and the manifest, have the bytes of the local build."""
    remote = local_folder(place.address, place.settings)
    names = [path.name for path in remote.iterdir() if path.name != "copied.json"]
    different = filecmp.cmpfiles(local, remote, names, shallow=False)[1:]
    return not any(different) and "manifest.json" in names


def _local_row(local: Built) -> Row:
    figures = {"seconds": f"{local.wall:,.0f}", "captions/s": f"{local.rate:,.0f}", "MB": f"{local.memory:,.0f}"}
    return Row("cluster", f"{local.memes:,} captions, one machine", figures)


def _cluster_row(last: Built, killed: Sequence[float], same: bool, machines: Sequence[Path]) -> Row:
    copies = [sum(path.stat().st_size for path in each.rglob("*") if path.is_file()) / 1e6 for each in machines]
    figures = {
        "seconds until killed": ", ".join(f"{seconds:,.0f}" for seconds in killed),
        "seconds of the last build": f"{last.wall:,.0f}",
        "memes as they were": f"{last.told['counts'].get('memes as they were', 0):,}",
        "shards as they were": f"{last.told['counts'].get('shards as they were', 0):,}",
        "MB of the driver": f"{last.memory:,.0f}",
        "MB of copies on the nodes": ", ".join(f"{size:,.0f}" for size in copies[:2]),
        "the bytes": "same" if same else "differ",
    }
    return Row("cluster", "two nodes on Ray, S3, killed twice", figures, "the bytes of one machine", same)
