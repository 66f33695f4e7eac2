"""What is shown of a stage that talks to hosts, while it runs and afterwards."""

import io
import json
import os
import pty
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import TextColumn

from memeloom.cli.progress import HOST_ROWS, Bars, JsonLines, Screen, host_table, open_progress
from memeloom.cli.summary import show_summary
from memeloom.configs.progress import HostSnapshot, Snapshot
from memeloom.configs.runs import Summary

HOSTS = (
    HostSnapshot("[red].example", "given up", None, 0, 60),
    HostSnapshot("tired.example", "resting", 0.25, 100, 12, 0, 24.5),
    *(HostSnapshot(f"i{number}.example", "ok", 0.012, 1000) for number in range(10)),
)
RATES = {"memes": 88.25, "bytes": 5_300_000.0}
NOW = Snapshot(RATES, {"imgflip": 12345}, HOSTS, {"ok": 80, "given up": 3, "resting": 1})


def drawn(now: Snapshot, width: int = 100) -> str:
    screen = Console(width=width, file=io.StringIO(), record=True)
    screen.print(host_table(now))
    return screen.export_text()


def test_a_terminal_shows_rates_queue_and_a_few_hosts() -> None:
    lines = drawn(NOW).splitlines()
    assert lines[0].split("   ") == ["  88.2 memes/s", "5.3 MB/s"]
    assert lines[1].strip() == "queue  imgflip 12,345"
    assert lines[2].split() == ["[red].example", "given", "up", "–", "0", "answers", "60", "failed"]
    assert lines[3].split()[:6] == ["tired.example", "resting", "24", "s", "250", "ms"]
    assert len(lines) == 2 + HOST_ROWS + 1
    assert lines[-1].strip() == "and 74 ok, 2 given up"


def test_a_narrow_terminal_shortens_names_not_numbers() -> None:
    host = HostSnapshot("a-very-long-name." * 9, "ok", 1.5, 1000)
    lines = drawn(Snapshot(hosts=(host,), states={"ok": 1}), width=50).splitlines()
    assert len(lines) == 2
    assert all(len(line) <= 50 for line in lines)
    assert "1,500 ms" in lines[1]
    assert "1,000 answers" in lines[1]


def test_json_lines_have_rates_hosts_and_measurements(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = JsonLines()
    progress.start("crawl", None, "memes")
    progress.show(NOW)
    assert len(capsys.readouterr().err.splitlines()) == 1, "the next is not due"
    monkeypatch.setattr("memeloom.cli.progress.LINE_SECONDS", 0.0)
    progress.measure(loss=2.31)
    progress.show(NOW)
    line = json.loads(capsys.readouterr().err)
    assert line["loss"] == 2.31
    assert (line["rates"]["memes"], line["queue"], line["host_states"]["given up"]) == (88.25, {"imgflip": 12345}, 3)
    assert line["hosts"]["tired.example"] == {"state": "resting", "latency_ms": 250.0, "rests_seconds": 24.5}
    assert len(line["hosts"]) == HOST_ROWS


@pytest.mark.parametrize(
    ("count", "hint"), [("requests set aside", "memeloom failed retry"), ("requests left", "continues with")]
)
def test_the_summary_names_the_next_command(capsys: pytest.CaptureFixture[str], count: str, hint: str) -> None:
    show_summary(Summary("crawl", {"memes": 5, count: 3}, seconds={"total": 1.0}), Path("run.json"))
    assert hint in capsys.readouterr().out
    show_summary(Summary("crawl", {"memes": 5, count: 0}, seconds={"total": 1.0}), Path("run.json"))
    assert hint not in capsys.readouterr().out


def test_the_summary_has_readable_names_rates_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {
        "steps": 600, "captions": 850, "validation_captions": 30, "validation_accuracy": 0.6123,
        "received bytes": 30_700_000,
    }  # fmt: skip
    show_summary(Summary("train", counts, seconds={"total": 60.0}), Path("run.json"))
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["steps", "600", "10"],
        ["captions to learn from", "850", ""],
        ["validation captions", "30", ""],
        ["validation accuracy", "61.2 %", ""],
        ["received bytes", "30.7 MB", ""],
    ]


def test_measurements_and_hosts_are_drawn_until_the_stage_ends() -> None:
    console = Console(file=io.StringIO(), width=100, record=True)
    with Screen(TextColumn("{task.description}"), console=console) as screen:
        bars = Bars(screen)
        bars.start("train", 10, "steps")
        bars.measure(loss=2.31234, accuracy=0.41)
        bars.measure(validation_loss=2.5)
        console.print(*screen.get_renderables())
        bars.show(NOW)
        assert len(list(screen.get_renderables())) > 1
        bars.finish()
        assert len(list(screen.get_renderables())) == 1
    assert "loss 2.312   accuracy 0.41   validation loss 2.5" in console.export_text()


def test_a_stage_without_a_unit_is_drawn_on_a_terminal_even_if_standard_error_is_redirected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, (Path(os.devnull)).open("w") as nowhere:
        monkeypatch.setattr("sys.stderr", terminal)
        with open_progress() as progress:
            progress.start("loading TensorFlow", None, "")
            os.dup2(nowhere.fileno(), terminal.fileno())
            progress.finish()
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert b"loading TensorFlow" in shown
    assert b"0/?" not in shown
