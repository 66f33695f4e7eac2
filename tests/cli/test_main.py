"""The command line: fast help, clear one-line errors, the right exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from memeloom.cli.main import cli


def _memeloom(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memeloom.cli.main", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_help_names_every_command_with_a_line_of_help() -> None:
    shown = CliRunner().invoke(cli, ["--help"])
    assert shown.exit_code == 0
    for name, command in ((n, cli.get_command(click.Context(cli), n)) for n in cli.list_commands(click.Context(cli))):
        assert command is not None
        assert command.short_help
        assert name in shown.output
    assert {"crawl", "import", "ocr", "build-dataset", "train", "generate", "stats", "purge", "demo"} <= set(
        cli.list_commands(click.Context(cli))
    )


def test_every_command_explains_itself() -> None:
    for name in cli.list_commands(click.Context(cli)):
        shown = CliRunner().invoke(cli, [name, "--help"])
        assert shown.exit_code == 0, name
        assert "Usage:" in shown.output


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, memeloom.cli.main as cli_main\n"
        "try: cli_main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(asked.stdout.splitlines()[-1].split())
    assert not loaded & {"tensorflow", "keras", "scrapy", "pydantic", "rich", "numpy", "cv2", "PIL", "ray", "selenium"}


def test_stats_of_a_new_catalog_is_empty_and_json_is_json(tmp_path: Path) -> None:
    asked = _memeloom("stats", "--json", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["memes"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["fly"], 2, "no such command: 'fly'"),
        (["-s", "crawl.max_memez=1", "stats"], 2, "did you mean crawl.max_memes?"),
        (["-c", "nothing.yaml", "stats"], 2, "nothing.yaml: No such file"),
        (["-s", "store.documents=ftp://x/y", "stats"], 2, "store.documents: cannot use 'ftp://x/y'"),
        (["-s", "store.blobs=ftp://x/y", "purge", "--yes", "imgflip:1"], 2, "store.blobs: cannot use 'ftp://x/y'"),
        (["import", "nothing.jsonl"], 1, "nothing.jsonl"),
        (["build-dataset"], 1, "holds no memes"),
        (["generate"], 1, "data/model"),
        (["train"], 1, "data/dataset"),
        (["purge"], 2, "name ids"),
    ],
)
def test_bad_input_is_one_clear_line_and_the_right_exit_code(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    asked = _memeloom(*arguments, cwd=tmp_path)
    assert said in asked.stderr
    assert asked.returncode == code
    assert "Traceback" not in asked.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    asked = _memeloom("--debug", "-s", "nope.nope=1", "stats", cwd=tmp_path)
    assert "Traceback" in asked.stderr
    assert asked.returncode == 1


def test_a_failed_run_leaves_its_record(tmp_path: Path) -> None:
    _memeloom("build-dataset", cwd=tmp_path)
    records = list((tmp_path / "data" / "runs").glob("*-build-dataset/run.json"))
    assert len(records) == 1
    assert "holds no memes" in json.loads(records[0].read_text())["outputs"]["error"]
    assert records[0].with_name("config.yaml").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_names_the_command(shell: str) -> None:
    shown = CliRunner().invoke(cli, ["completion", shell])
    assert shown.exit_code == 0
    assert "_MEMELOOM_COMPLETE" in shown.output


def test_json_lines_tell_start_and_end_of_a_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from memeloom.cli.progress import JsonLines

    clock = iter([0.0, 0.0, 1.0, 8.0])
    monkeypatch.setattr("memeloom.cli.progress.time.monotonic", lambda: next(clock))
    progress = JsonLines()
    progress.start("ocr", 10, "memes")
    progress.advance(4, kept=3, dropped=1)
    progress.finish()
    first, last = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["stage"], first["done"], first["total"]) == ("ocr", 0, 10)
    assert (last["done"], last["kept"], last["dropped"]) == (4, 3, 1)
    assert (first["remaining_seconds"], last["per_second"], last["remaining_seconds"]) == (None, 0.5, 12)
