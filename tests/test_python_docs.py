"""Every example of docs/python.md runs, on a small catalog, dataset and model; so does each name of the interface."""

import asyncio
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import memeloom
from memeloom.dataset.build import build_dataset
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl
from memeloom.train.fit import train_model

# Keras on TensorFlow, when it saves.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL | re.MULTILINE)
QUICK = (
    "crawl.sources=[imgflip]", "crawl.delay_seconds=0", "crawl.contact=tests@example.org",
    "dataset.min_captions_per_template=1", "train.model=ngram", "generate.max_characters=30",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder after crawl, build-dataset and train with the default paths."""
    path = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch, Internet(memes=120, quick=True) as internet:
        patch.chdir(path)
        config = memeloom.load_config(overrides=[*internet.settings, *QUICK])
        crawl(config)
        build_dataset(config)
        train_model(config)
    return path


@pytest.fixture
def at_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.usefixtures("at_folder")
def test_a_caption_is_written_and_drawn(folder: Path) -> None:
    exec(EXAMPLES[0], {})
    assert (folder / "meme.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "example",
    [
        "to_tensorflow",
        pytest.param("to_torch", marks=pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")),
        "to_jax",
    ],
)
def test_a_dataset_is_read_by(example: str, folder: Path) -> None:
    """In a process of its own: other tests fork, which a process with JAX in it must not."""
    (code,) = [each for each in EXAMPLES if example in each]
    command = [sys.executable, "-c", EXAMPLES[1] + code]
    assert subprocess.check_output(command, cwd=folder, text=True, timeout=120).count("\n") >= 3


def test_a_crawl_runs_where_a_loop_already_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = [each for each in EXAMPLES if "memeloom.crawl(" in each]

    async def cell() -> None:
        exec(code, {})

    monkeypatch.chdir(tmp_path)
    with Internet(memes=24, quick=True) as internet:
        for setting in internet.settings:
            key, _, value = setting.partition("=")
            monkeypatch.setenv(f"MEMELOOM_{key.upper().replace('.', '__')}", value)
        for printed in ("24 {}\n", "24 {}\n"):
            asyncio.run(cell())
            assert capsys.readouterr().out == printed


@pytest.mark.usefixtures("at_folder")
def test_a_stage_is_called() -> None:
    exec(EXAMPLES[-1], {})


@pytest.mark.usefixtures("at_folder")
def test_batches_hold_the_texts_of_the_records() -> None:
    dataset = memeloom.read_dataset("data/dataset")
    batch = next(dataset.batches(size=8, length=40))
    record = next(dataset.records())
    characters = dataset.vocabulary.characters
    assert "".join(characters[number - 1] for number in batch.characters[0] if number) == record.text[:40]
    assert dataset.manifest.templates[batch.templates[0]].id == record.template


def test_importing_memeloom_loads_nothing_else() -> None:
    code = "import sys, memeloom; print([name for name in sys.modules if name.startswith('memeloom.')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).strip() == "[]"


@pytest.mark.parametrize("name", memeloom.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert name in dir(memeloom)
    assert getattr(memeloom, name).__doc__
