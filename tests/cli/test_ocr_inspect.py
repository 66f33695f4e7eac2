"""`memeloom ocr --inspect`: a picture beside the text, and one clear line when there is none."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from memeloom.catalog.stores import open_documents
from memeloom.cli.main import main
from memeloom.configs.load import load_config
from memeloom.serve.drawing import draw_caption


def memeloom(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int:
    """The exit code of the command, run in `folder`."""
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    photo = np.random.default_rng(1).integers(30, 200, (6, 7, 3), np.uint8)
    picture = Pillow.fromarray(cv2.resize(photo, (600, 500), interpolation=cv2.INTER_CUBIC))
    path = tmp_path / "drawn meme.png"
    draw_caption(picture, (), ("TOP OF THE MEME", "BOTTOM OF IT")).save(path)
    return path


def test_a_file_is_shown_as_a_page_and_a_table_and_nothing_is_stored(drawn: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "memeloom.cli.main", "-s", "ocr.engine=tesseract", "ocr", "--inspect", drawn.name],
        cwd=drawn.parent, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert "TOP OF THE MEME" in asked.stdout
    page = drawn.parent / "data" / "runs" / "inspect-drawn-meme.png.html"
    assert f"drawn: {page.relative_to(drawn.parent)}" in asked.stdout
    assert "BOTTOM OF IT" in page.read_text()
    store = f"store.documents=sqlite:///{drawn.parent}/data/catalog.db"
    kept = open_documents(load_config(environment={}, overrides=[store]).store)
    assert kept.count() == 0
    assert not (drawn.parent / "data" / "blobs").exists()


def test_captions_go_on_with_what_is_read(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    monkeypatch.setattr(
        "memeloom.cli.model.write_captions", lambda config, *, as_json: starts.append(config.generate.start)
    )
    asked = ["-s", "ocr.engine=tesseract", "generate", "doge", "--read"]
    assert memeloom(monkeypatch, drawn.parent, *asked, str(drawn)) == 0
    assert starts == ["TOP OF THE MEME|BOTTOM OF IT"]
    Pillow.new("RGB", (300, 200), "white").save(drawn)
    assert memeloom(monkeypatch, drawn.parent, *asked, str(drawn)) == 1
    assert memeloom(monkeypatch, drawn.parent, *asked, str(drawn), "--start", "one") == 2


def test_out_ending_in_png_is_a_picture(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = drawn.parent / "seen" / "it.png"
    asked = ["-s", "ocr.engine=tesseract", "ocr", "--inspect", str(drawn), "--out", str(out)]
    assert memeloom(monkeypatch, drawn.parent, *asked) == 0
    with Pillow.open(out) as picture:
        assert picture.format == "PNG"
        assert picture.width > 1000, "the texts stand beside the picture"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ocr", "--inspect", "none.jpg"], 1, "none.jpg: no such file"),
        (["ocr", "--inspect", "imgflip:1"], 1, "imgflip:1: no such file, and no such meme"),
        (["ocr", "--inspect", "text.jpg"], 1, "text.jpg: not an image"),
        (["ocr", "--inspect", "x.jpg", "--out", "x.pdf"], 2, "must end in .html or .png"),
        (["ocr", "--out", "x.png"], 2, "--out goes with --inspect"),
        (["-s", "ocr.language=xyz", "-s", "ocr.engine=tesseract", "ocr", "--inspect", "blank.png"], 1, "language pack"),
    ],
)
def test_what_cannot_be_inspected_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, said: str,
) -> None:  # fmt: skip
    (tmp_path / "text.jpg").write_text("<html>")
    Pillow.new("RGB", (50, 50)).save(tmp_path / "blank.png")
    assert memeloom(monkeypatch, tmp_path, *arguments) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    if code == 1:
        assert error.count("\n") == 1
