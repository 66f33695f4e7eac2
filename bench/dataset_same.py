"""The same bytes, whoever does the work: Ray's workers, other numbers of processes, and builds that are killed."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.dataset_build import ROOT, build, real_catalog
from bench.rows import Row

_KILLS = 10


def same_rows(data: Path) -> Iterator[Row]:
    """Build once, then in other ways, and compare every file."""
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as name:
        folder = Path(name)
        catalog = real_catalog(data, folder)
        output = folder / "local" / "dataset"
        whole = build(catalog, output).wall
        expected = _hashes(output)
        alone = folder / "alone" / "dataset"
        build(catalog, alone, "engine.workers=1")
        yield _row("one process", _hashes(alone), expected, {})
        yield _killed(catalog, folder / "killed" / "dataset", whole, expected)
        yield _ray(catalog, folder / "ray" / "dataset", expected)


def _ray(catalog: Path, output: Path, expected: dict[str, str]) -> Row:
    try:
        import ray  # noqa: F401
    except ImportError:
        return Row("same bytes", "Ray, 2 processors", {"left out": "Ray is not installed"})
    from tests.services.ray_cluster import ray_cluster

    with ray_cluster(2) as address:
        built = build(catalog, output, "engine.kind=ray", f"engine.ray_address={address}")
    return _row("Ray, 2 processors", _hashes(output), expected, {"seconds": f"{built.wall:.0f}"})


def _killed(catalog: Path, output: Path, whole: float, expected: dict[str, str]) -> Row:
    """Killed at random moments: each at most a fifth of a whole build after it began, so that all come true."""
    command = [sys.executable, "-m", "bench.dataset_worker", str(catalog), str(output)]
    chance = random.Random(0)
    killed = 0
    began = time.perf_counter()
    while killed < _KILLS:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(timeout=chance.uniform(0.02, 0.2) * whole)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
        else:
            break
    last = build(catalog, output)
    figures = {
        "killed": f"{killed} times",
        "seconds": f"{time.perf_counter() - began:.0f} in all, {last.wall:.0f} for the last; {whole:.0f} unkilled",
    }
    return _row("killed, and begun again", _hashes(output), expected, figures)


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def _row(who: str, found: dict[str, str], expected: dict[str, str], figures: dict[str, str]) -> Row:
    same = sum(found.get(name) == digest for name, digest in expected.items())
    shown = {"equal files": f"{same} of {len(expected)}", **figures}
    return Row("same bytes", who, shown, "all equal", found == expected)
