"""The units in `deploy/systemd` are sound, and their commands are ours."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Memeloom

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
PROGRAM = "/opt/memeloom/bin/memeloom"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze: apt-get install systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")


def test_their_commands_and_options_exist(memeloom: Memeloom) -> None:
    commands = [
        line.split()
        for unit in sorted(UNITS.glob("*.service"))
        for line in re.findall(rf"ExecStart={PROGRAM} (.*)", unit.read_text())
    ]
    assert len(commands) == 4
    for arguments in commands:
        result = memeloom(*(each.replace("/etc/", "missing/") for each in arguments))
        assert (result.code, "missing/memeloom/config.yaml" in result.err) == (2, True), result.err
