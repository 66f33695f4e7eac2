"""`--every`: a stage runs again after each run, also a failed one, until Ctrl-C."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memeloom.catalog.errors import StoreUnavailable
from memeloom.configs.runs import Summary
from tests.cli.conftest import Memeloom


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The waits between runs, in seconds; Ctrl-C comes in the second."""
    slept: list[int] = []

    def sleep(seconds: int) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("memeloom.cli.every.sleep", sleep)
    return slept


def runs(monkeypatch: pytest.MonkeyPatch, *results: Callable[[], Summary]) -> None:
    left = iter(results)
    monkeypatch.setattr("memeloom.catalog.backup.back_up", lambda *_: next(left)())


def failing() -> Summary:
    raise StoreUnavailable("db.example: not reached\nwithin 30 s")


def test_a_failed_run_is_followed_by_the_next(
    memeloom: Memeloom, monkeypatch: pytest.MonkeyPatch, waits: list[int], tmp_path: Path
) -> None:
    runs(monkeypatch, failing, lambda: Summary("backup", {"memes": 7}))
    result = memeloom("backup", "copy", "--every", "6h")
    assert (result.code, waits) == (130, [6 * 3600] * 2)
    first, second = (json.loads(line) for line in result.err.splitlines() if line.startswith("{"))
    assert first["failed"] == "db.example: not reached within 30 s"
    assert second["failed"] is None
    assert len(list((tmp_path / "data" / "runs").glob("*-backup*/run.json"))) == 2


def test_wrong_settings_and_options_end_it_at_once(memeloom: Memeloom, waits: list[int]) -> None:
    assert memeloom("backup", "copy", "--every", "6h", "-s", "store.documents=ftp://x").code == 2
    for arguments in (("ocr", "--inspect", "x"), ("crawl", "--fresh"), ("templates", "run", "--again")):
        result = memeloom(*arguments, "--every", "1h")
        assert (result.code, "--every does not go with" in result.err) == (2, True)
    for wrong in ("6", "0h", "soon"):
        assert "write 30m or 6h" in memeloom("backup", "copy", "--every", wrong).err
    assert waits == []
