"""`memeloom dataset`: tables for people, JSON for programs, exit codes for scripts."""

import json
import random
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memeloom.catalog.records import Meme, TemplateRef
from memeloom.catalog.stores import open_documents
from memeloom.cli.main import main
from memeloom.configs.load import load_config

WORDS = ["when", "the", "you", "and", "that", "have", "with", "this", "not", "are", "but", "what", "all", "was", "your"]
Run = Callable[..., str]


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """Options that put everything in the folder of the test."""
    settings = {
        "store.documents": f"sqlite:///{tmp_path}/catalog.db",
        "dataset.output": f"{tmp_path}/dataset",
        "runs": f"{tmp_path}/runs",
        "dataset.languages": "[]",
        "engine.workers": "1",
    }
    return [option for key, value in settings.items() for option in ("-s", f"{key}={value}")]


@pytest.fixture
def run(places: list[str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; returns what it printed."""

    def call(*arguments: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main([*places, *map(str, arguments)])
        shown = capsys.readouterr()
        assert left.value.code == code, shown.err
        return shown.err if code else shown.out

    return call


@pytest.fixture
def dataset(run: Run, tmp_path: Path) -> Path:
    """A dataset of 60 captions on two templates, one of them with a name that is out to command the terminal."""
    names = ["One Does Not \x1b[31mSimply", "Doge"]
    rng = random.Random(1)
    memes = [
        Meme(
            id=f"imgflip:{n}",
            source="imgflip",
            template=TemplateRef(id=f"t{n % 2}", slug=f"s{n % 2}", name=names[n % 2]),
            boxes=("[bold]is written[/bold]", " ".join(rng.choices(WORDS, k=5))),
            fetched_at=datetime(2026, 1, 2, tzinfo=UTC),
        )
        for n in range(60)
    ]
    config = load_config(overrides=[f"store.documents=sqlite:///{tmp_path}/catalog.db"], environment={})
    with closing(open_documents(config.store)) as documents:
        documents.upsert(memes)
    run("build-dataset")
    return tmp_path / "dataset"


def test_inspect_shows_counts_templates_and_records(run: Run, dataset: Path) -> None:
    shown = run("dataset", "inspect")
    for part in (
        "tfrecord, gzip",
        "60",
        "by split",
        "train",
        "Doge (t1)",
        "some records",
        "imgflip:",
        "[bold]is written",
    ):
        assert part in shown
    assert "\x1b[31mSimply" not in shown
    assert run("dataset", "inspect", dataset) == shown
    assert "some records" not in run("dataset", "inspect", "--records", 0)


@pytest.fixture
def copied(run: Run, places: list[str], tmp_path: Path) -> Path:
    """A dataset of two sources, with copies, and words that are on a list."""
    texts = {
        "imgflip:1": "the very same caption in two places",
        "reddit:1": "the very same caption in two places",
        "reddit:2": "that is nothing but bullshit again",
        "reddit:3": "when the alarm clock rings on a monday morning in the winter",
        "imgflip:3": "when the alarm clock rings on a monday mornin in the winter",
    }
    memes = [
        Meme(
            id=key,
            source=key.partition(":")[0],
            template=TemplateRef(id="t", slug="s", name="Doge"),
            boxes=(text,),
            fetched_at=datetime(2026, 1, 2, tzinfo=UTC),
        )
        for key, text in texts.items()
    ]
    config = load_config(overrides=[f"store.documents=sqlite:///{tmp_path}/catalog.db"], environment={})
    with closing(open_documents(config.store)) as documents:
        documents.upsert(memes)
    run("build-dataset")
    return tmp_path / "dataset"


def test_inspect_shows_how_it_was_split_copies_and_drops_by_source(run: Run, copied: Path) -> None:
    shown = run("dataset", "inspect", copied)
    for part in (
        "by caption: 5 % validation, 5 % test",
        "2 captions stood in 1 group of equal ones",
        "profanity: strong: b******t 1",
        "near duplicate",
    ):
        assert part in shown
    assert "bullshit" not in shown
    row = next(line for line in shown.splitlines() if "profanity: strong" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["profanity: strong", "1", "1", "0"], (
        "reddit has most memes"
    )


def test_diff_explains_drops_by_source_and_settings_that_were_not_set(run: Run, copied: Path, tmp_path: Path) -> None:
    aside = copied.rename(tmp_path / "former")
    run("-s", "dataset.near_text=null", "-s", "dataset.profanity_allow=[bullshit]", "build-dataset")
    found = json.loads(run("dataset", "diff", aside, copied, "--json"))
    assert {"name": "near_text", "before": 0.8, "after": "null"} in found["made"]
    assert {"name": "reddit: profanity: strong", "before": 1, "after": None} in found["dropped_by_source"]
    assert {"name": "profanity: strong: bullshit", "before": 1, "after": None} in found["found"]
    shown = run("dataset", "diff", aside, copied)
    for part in ("near_text", "null", "memes dropped, by source", "reddit: profanity: strong", "b******t"):
        assert part in shown
    assert "profanity_allow" in shown


def test_inspect_as_json_is_the_manifest_and_the_records(run: Run, dataset: Path) -> None:
    found = json.loads(run("dataset", "inspect", dataset, "--json", "--records", 2))
    assert found["records"] == 60
    assert len(found["samples"]["train"]) == 2
    assert set(found["samples"]["train"][0]) >= {"id", "text", "boxes", "template"}
    assert {name: found[name] for name in ("kind", "kept")} == {"kind": "memeloom dataset", "kept": {"imgflip": 60}}


def test_verify_finds_no_fault(run: Run, dataset: Path) -> None:
    assert "60 records in 3 files, no fault found" in run("dataset", "verify", dataset)


def test_verify_names_the_damage_in_one_line_and_exits_with_1(run: Run, dataset: Path) -> None:
    path = dataset / "train-00000-of-00001.tfrecord.gz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    error = run("dataset", "verify", dataset, code=1)
    line = next(line for line in error.splitlines() if line.startswith("memeloom:"))
    assert "train-00000-of-00001.tfrecord.gz" in line
    assert "at byte" in line


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_what_is_no_dataset_is_one_line(run: Run, tmp_path: Path, command: str) -> None:
    assert "no dataset here" in run("dataset", command, tmp_path / "nothing", code=1)


def test_diff_shows_what_changed(run: Run, dataset: Path, tmp_path: Path) -> None:
    aside = dataset.rename(tmp_path / "former")
    built = run(
        "-s", "dataset.captions_per_template=20", "build-dataset", "--format", "parquet", "--compression", "zstd"
    )
    assert "TensorFlow itself cannot read parquet; `memeloom train` can" in built
    shown = run("dataset", "diff", aside, dataset)
    for part in ("captions_per_template", "template is full", "removed", "-10", "the same", "parquet", "zstd"):
        assert part in shown
    found = json.loads(run("dataset", "diff", aside, dataset, "--json"))
    assert (found["records"]["same"], found["records"]["counts"]) == (40, {"removed": 20})
    assert {"name": "template is full", "before": None, "after": 20} in found["dropped"]


def test_who_chooses_zstd_is_told_who_cannot_read_it(run: Run, dataset: Path) -> None:
    packed = run("build-dataset", "--compression", "zstd")
    assert "TensorFlow itself cannot read tfrecord packed with zstd; `memeloom train` can" in packed
    assert "cannot read" not in run("build-dataset", "--compression", "none")


def test_a_dummy_is_built_and_looked_at(run: Run, dataset: Path, tmp_path: Path) -> None:
    assert "choose another dataset.output" in run("build-dataset", "--format", "dummy", code=2)
    elsewhere = ("-s", f"dataset.output={tmp_path}/dummy")
    built = run(*elsewhere, "build-dataset", "--format", "dummy")
    assert "kept" in built
    assert "there is nothing to train on" in built
    assert "dummy" in run(*elsewhere, "dataset", "inspect")
    assert "counted, not written" in run(*elsewhere, "dataset", "verify")
    assert "one of the two holds none" in run("dataset", "diff", dataset, tmp_path / "dummy")
