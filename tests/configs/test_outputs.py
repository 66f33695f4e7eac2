"""Outputs are complete or absent."""

import json
import multiprocessing
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config, masked
from memeloom.configs.outputs import atomic_file, remove_leftovers, write_json, write_text
from memeloom.configs.runs import Summary, write_run


def test_an_incomplete_file_is_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")
    with suppress(KeyboardInterrupt), atomic_file(path) as stream:
        stream.write(b"half of the n")
        raise KeyboardInterrupt
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("out.txt", "old")]
    with pytest.raises(MemeloomError, match=r"cannot write .*out\.json: "):
        write_json(path / "out.json", {})


def _die_while_writing(path: Path) -> None:
    with atomic_file(path) as stream:
        stream.write(b"half")
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_write_leaves_the_old_file_and_a_removable_one(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")
    victim = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(path,))
    victim.start()
    victim.join(30)
    assert victim.exitcode == -signal.SIGKILL
    assert path.read_text() == "old"
    # The incomplete file stays until a process that holds the folder's lock removes it.
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    names = [".notes.tmp", "out.txt.abcdefgh.tmp", ".out.txt.abcdefgh.tmp.gz", ".out.txt.ABCDEFGH.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".folder.abcdefgh.tmp").mkdir()
    (tmp_path / "within").mkdir()
    (tmp_path / "within" / ".out.txt.abcdefgh.tmp").write_text("another's")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.rglob("*")} == {
        *names, ".folder.abcdefgh.tmp", "within", ".out.txt.abcdefgh.tmp",
    }  # fmt: skip
    remove_leftovers(tmp_path / "missing")


def test_a_full_disk_is_an_error_and_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "out.txt"
    write_text(path, "old")
    with pytest.raises(MemeloomError, match=r"cannot write .*out\.txt: the disk is full"):
        write_text(path, "x" * 10_000_000)
    assert [(file.name, file.read_text()) for file in small_disk.iterdir()] == [("out.txt", "old")]


def test_a_run_record_holds_counts_rates_versions_and_masked_settings(tmp_path: Path) -> None:
    config = load_config(overrides=["crawl.author_salt=pepper"], environment={})
    summary = Summary("crawl", {"memes": 100}, {"no image": 3}, {"log": "x"}, {"total": 4.0})
    record = json.loads(write_run(tmp_path, summary, masked(config)).read_text())
    assert record["counts"] == {"memes": 100}
    assert record["reasons"] == {"no image": 3}
    assert record["rates_per_second"] == {"memes": 25.0}
    assert record["peak_rss_mb"] > 10
    assert {"python", "scrapy", "keras"} <= set(record["versions"])
    assert "pepper" not in json.dumps(record)
