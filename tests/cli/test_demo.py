"""The demo refuses a folder that is not its own. `tests/test_installed.py` runs the whole of it."""

import subprocess
import sys
from pathlib import Path


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    ran = subprocess.run(
        [sys.executable, "-m", "memeloom.cli.main", "demo", "--folder", "mine"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "holds files that are not a demo's" in ran.stderr
    assert (tmp_path / "mine" / "thesis.txt").exists()
