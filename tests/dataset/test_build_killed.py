"""kill -9 at any moment of a build leaves the former dataset or none, and the next build repairs everything."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from memeloom.catalog.records import Meme
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.build import build_dataset
from memeloom.dataset.manifest import NotADataset
from memeloom.dataset.verify import verify_dataset

MakeConfig = Callable[..., Config]
MakeMemes = Callable[..., list[Meme]]
Fill = Callable[[Config, Iterable[Meme]], None]
SCRIPT = Path(__file__).with_name("killed_build.py")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def command(config: Config, number: int) -> list[str]:
    database = config.store.documents.removeprefix("sqlite:///")
    return [sys.executable, str(SCRIPT), database, config.dataset.output, str(number)]


def killed_build(config: Config, number: int) -> bool:
    """Whether the build was killed at that step; False if it came to its end before."""
    done = subprocess.run(command(config, number), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.fixture
def catalogs(config: MakeConfig, fill: Fill, english: MakeMemes) -> tuple[Config, dict[str, bytes], dict[str, bytes]]:
    """Settings, the dataset that stands there now, and the one that a grown catalog gives."""
    settings = config(shard_records=50, languages=[])
    folder = Path(settings.dataset.output)
    fill(settings, english(120))
    build_dataset(settings, Silent())
    former = content(folder)
    fill(settings, english(120, seed=2))
    aside = folder.rename(f"{folder}-former")
    build_dataset(settings, Silent())
    new = content(folder)
    shutil.rmtree(folder)
    aside.rename(folder)
    return settings, former, new


def test_killed_at_moments_all_along_the_way(catalogs: tuple[Config, dict[str, bytes], dict[str, bytes]]) -> None:
    settings, former, new = catalogs
    folder = Path(settings.dataset.output)
    work = folder.with_name(".dataset.work")
    aside, begun = (shutil.copytree(each, folder.with_name(f"aside{each.name}")) for each in (folder, work))

    def restore() -> None:
        for where, source in ((folder, aside), (work, begun)):
            shutil.rmtree(where, ignore_errors=True)
            shutil.copytree(source, where)

    done = subprocess.run(command(settings, 10**9), capture_output=True, text=True, timeout=120, check=True)
    steps = int(done.stdout)
    assert content(folder) == new
    restore()
    seen = set()
    moments = sorted({*range(0, steps, steps // 12), *range(steps - 6, steps)})
    for number in moments:
        assert killed_build(settings, number), f"step {number} of {steps}"
        found = content(folder)
        assert found in ({}, former, new), f"step {number} of {steps}"
        seen.add("none" if not found else "former" if found == former else "new")
        if not found:
            with pytest.raises(NotADataset, match="no dataset here"):
                verify_dataset(folder)
        build_dataset(settings, Silent())
        assert content(folder) == new, f"after step {number} of {steps}"
        left = {path.name for path in folder.parent.iterdir() if path.name.startswith(".dataset.")}
        assert left == {".dataset.lock", ".dataset.work"}
        restore()
    assert seen == {"none", "former", "new"}


def test_a_build_that_was_killed_again_and_again_goes_on_where_it_was(
    catalogs: tuple[Config, dict[str, bytes], dict[str, bytes]],
) -> None:
    settings, _, new = catalogs
    shutil.rmtree(Path(settings.dataset.output).with_name(".dataset.work"))
    kills = 0
    while killed_build(settings, 60):
        kills += 1
        assert kills < 40, "60 steps a time must lead to the end"
    assert kills > 1
    assert content(Path(settings.dataset.output)) == new


def test_killed_from_outside_at_random_moments(catalogs: tuple[Config, dict[str, bytes], dict[str, bytes]]) -> None:
    settings, former, new = catalogs
    folder = Path(settings.dataset.output)
    never = 10**9
    started = time.monotonic()
    subprocess.run(command(settings, never), check=True, capture_output=True, timeout=120)
    whole = time.monotonic() - started
    rng = random.Random(whole)
    for _ in range(3):
        process = subprocess.Popen(command(settings, never))
        try:
            process.wait(timeout=rng.uniform(0.3, 1.0) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
        assert content(folder) in ({}, former, new)
    build_dataset(settings, Silent())
    assert content(folder) == new
