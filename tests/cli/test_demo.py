"""The demo in small: every stage of the way, one after the other, as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
SMALL = (
    "crawl.sources=[imgflip, reddit]", "crawl.reddit.posts_per_subreddit=20", "ocr.engine=rapidocr",
    "train.causal.table_bits=10", "train.causal.units=8", "train.steps=6", "train.steps_per_epoch=3",
    "train.validation_batches=1", "generate.captions=1", "generate.max_characters=30",
)  # fmt: skip


def _demo(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [word for setting in SMALL for word in ("-s", setting)]
    return subprocess.run(
        [sys.executable, "-m", "memeloom.cli.main", *settings, "demo", "--memes", "60", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=240, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_the_whole_way_leaves_a_picture_and_a_record_a_stage(tmp_path: Path) -> None:
    ran = _demo(tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "The whole way in" in ran.stdout
    folder = tmp_path / "data" / "demo"
    with Image.open(folder / "memes.png") as picture:
        assert picture.width > 300
    records = {
        path.parent.name.split("-", 1)[1]: json.loads(path.read_text()) for path in folder.glob("runs/*/run.json")
    }
    assert set(records) == {"crawl", "templates", "ocr", "build-dataset", "train"}
    assert records["crawl"]["counts"]["memes"] >= 60
    assert records["ocr"]["counts"]["memes"] > 0
    assert records["build-dataset"]["counts"]["kept"] > 40
    assert sum(records["build-dataset"]["reasons"].values()) > 0


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    ran = _demo(tmp_path, "--folder", "mine")
    assert ran.returncode == 2
    assert "holds files that are not a demo's" in ran.stderr
    assert (tmp_path / "mine" / "thesis.txt").exists()
