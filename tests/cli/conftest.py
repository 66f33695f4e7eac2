"""Commands run in this process, in a folder of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from memeloom.cli.main import main


class Result(NamedTuple):
    """What a command left: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


Memeloom: TypeAlias = Callable[..., Result]


@pytest.fixture
def memeloom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Memeloom:
    """Runs a command in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        written = capsys.readouterr()
        return Result(int(ended.value.code or 0), written.out, written.err)

    return call
