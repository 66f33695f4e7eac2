"""Captions written in advance: complete after kills, replaced with their model, and served without it."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memeloom.cli.main import main
from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.serve.ready import ReadyMemes, fill_table
from memeloom.train.runtime import model_version
from tests.serve.random_model import write_random_model

TEMPLATES = 30
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model"), TEMPLATES)


def settings(model: Path, table: Path, **changes: Any) -> Config:
    wanted = {"model": str(model), "table": str(table), "captions": 4, "seed": 1, "max_characters": 40, **changes}
    return load_config(options={f"generate.{key}": value for key, value in wanted.items()})


def rows(table: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(table)) as connection:
        return connection.execute("SELECT * FROM captions ORDER BY template, number").fetchall()


@pytest.fixture(scope="module")
def table(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "ready.db"
    fill_table(settings(model, path))
    return path


@pytest.fixture
def ready(table: Path) -> Iterator[ReadyMemes]:
    with closing(ReadyMemes.open(table)) as opened:
        yield opened


def test_every_template_has_its_captions_with_texts_score_and_model(ready: ReadyMemes, model: Path) -> None:
    assert ready.templates() == {str(n): f"Template {n}" for n in range(TEMPLATES)}
    for template in ready.templates():
        found = ready.captions(template, 99)
        assert len({caption.boxes for caption in found}) == 4
        assert all(len(caption.boxes) == 2 and any(caption.boxes) and 0 < caption.score <= 1 for caption in found)
        assert {caption.model for caption in found} == {model_version(model)}


def test_captions_are_drawn_at_random_without_repetition(ready: ReadyMemes) -> None:
    draws = {tuple(c.boxes for c in ready.captions("3", 2, random.Random(seed))) for seed in range(20)}
    assert len(draws) > 3
    assert all(len(set(draw)) == 2 for draw in draws)
    assert ready.captions("no such template", 2) == []


def test_a_killed_run_resumes_to_the_captions_of_an_undisturbed_one(model: Path, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "ready.db"
    command = [sys.executable, "-m", "memeloom.cli.main", "generate", "--all", "--count", "4", "--seed", "1"]
    for key, value in {"model": model, "table": path, "max_characters": 40}.items():
        command += ["--set", f"generate.{key}={value}"]
    killed = 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for wanted in (3, 11, 19):
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and written(path) < wanted:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        counts = [sum(row[0] == each for row in rows(path)) for each in {row[0] for row in rows(path)}]
        assert set(counts) == {4}, "each template has all of its captions or none"
    assert killed
    summary = fill_table(settings(model, path))
    assert summary.counts["kept"] >= 3
    assert summary.counts["kept"] + summary.counts["templates"] == TEMPLATES
    assert rows(path) == rows(table)
    assert fill_table(settings(model, path)).counts["templates"] == 0


def written(path: Path) -> int:
    """Return how many templates a table has captions of."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(DISTINCT template) FROM captions").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_another_model_or_other_settings_replace_the_captions(tmp_path: Path) -> None:
    path, folder = tmp_path / "ready.db", write_random_model(tmp_path / "model", 5)
    fill_table(settings(folder, path))
    with closing(ReadyMemes.open(path)) as ready:
        first = ready.captions("1", 9)
        assert fill_table(settings(folder, path, captions=6)).counts["templates"] == 5
        assert len(ready.captions("1", 9)) == 6
        write_random_model(folder, 3, seed=2)
        assert fill_table(settings(folder, path, captions=6)).counts["templates"] == 3
        assert set(ready.templates()) == {"0", "1", "2"}
        assert ready.captions("4", 9) == []
        assert {caption.model for caption in ready.captions("1", 9)} == {model_version(folder)} != {first[0].model}


def test_files_that_are_no_table_are_refused_and_kept(model: Path, tmp_path: Path) -> None:
    with pytest.raises(MemeloomError, match=r"no table of ready memes here; write one with `memeloom generate --all`"):
        ReadyMemes.open(tmp_path / "missing.db")
    text = tmp_path / "thesis.txt"
    text.write_text("years of work " * 100)
    other = tmp_path / "catalog.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE memes (id)")
    for path, message in ((text, "file is not a database"), (other, "not a table of ready memes")):
        before = path.read_bytes()
        for call in (ReadyMemes.open, lambda path: fill_table(settings(model, path))):
            with pytest.raises(MemeloomError, match=message):
                call(path)
        assert path.read_bytes() == before
    with pytest.raises(MemeloomError, match="unable to open"):
        fill_table(settings(model, tmp_path))


@pytest.mark.parametrize("option", [["--json"], ["0"], ["--picture", "sheet.png"], ["--read", "a.png"]])
def test_what_all_would_ignore_is_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["generate", "--all", *option])
    assert end.value.code == 2
    assert "--all and " in capsys.readouterr().err
