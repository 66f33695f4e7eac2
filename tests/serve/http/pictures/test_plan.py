"""What the version of pictures, and so their entity tags, depends on."""

from dataclasses import replace
from pathlib import Path

import pytest

from memeloom.serve.drawing.fonts import FONT, default_font
from memeloom.serve.http.pictures import plan


def version(monkeypatch: pytest.MonkeyPatch, path: Path) -> str:
    plan.renderer_version.cache_clear()
    monkeypatch.setattr(plan, "fonts", lambda: (replace(default_font(), path=path),))
    found = plan.renderer_version()
    plan.renderer_version.cache_clear()
    return found


def test_another_file_of_a_font_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same, longer, changed = tmp_path / "same.ttf", tmp_path / "longer.ttf", tmp_path / "changed.ttf"
    data = FONT.read_bytes()
    same.write_bytes(data)
    longer.write_bytes(data + b"\0")
    changed.write_bytes(data[:20] + b"\xff" + data[21:])
    versions = [version(monkeypatch, path) for path in (FONT, same, longer, changed, tmp_path / "gone.ttf")]
    assert versions[0] == versions[1], "where it lies does not matter"
    assert len(set(versions)) == 4
