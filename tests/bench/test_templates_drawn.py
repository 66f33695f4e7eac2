"""The generator of memes on known templates: deterministic, split in halves, and its truth is true."""

import gzip
import json
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from bench.templates_alike import ALIKE
from bench.templates_drawn import Drawn, drawn, load_blanks, stacked, strangers

SLUGS = [f"Template-{number}" for number in range(8)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of small pictures that differ everywhere, each with captions."""
    (tmp_path / "templates" / "imgflip").mkdir(parents=True)
    (tmp_path / "real_memes").mkdir()
    entries = []
    for number, slug in enumerate(SLUGS):
        cv2.imwrite(str(tmp_path / "templates" / "imgflip" / f"{slug}.jpg"), _picture(number))
        cv2.imwrite(str(tmp_path / "real_memes" / f"real-{number}.jpg"), _picture(100 + number))
        entries.append({
            "file": f"imgflip/{slug}.jpg", "name": slug, "imgflip_id": str(100 + number), "imgflip_slug": slug,
            "alt_names": [], "width": 300, "height": 200,
            "box_css": ["left: 10px; top: 250px; width: 440px; height: 50px;",
                        "left: 10px; top: 10px; width: 440px; height: 50px;"],
        })  # fmt: skip
    (tmp_path / "templates" / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    with gzip.open(tmp_path / "imgflip_captions.jsonl.gz", "wt", encoding="utf-8") as lines:
        for number in range(64):
            row = {"template": SLUGS[number % len(SLUGS)], "post": f"https://imgflip.com/i/{number + 100}",
                   "image_url": "x.jpg", "title": "t", "views": 1, "votes": 1,
                   "boxes": [f"top {number}", "bottom"]}  # fmt: skip
            lines.write(json.dumps(row) + "\n")
    return tmp_path


def _picture(seed: int) -> NDArray[np.uint8]:
    coarse = np.random.default_rng(seed).integers(0, 256, (10, 15, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (300, 200), interpolation=cv2.INTER_CUBIC), np.uint8)


def test_the_same_seed_draws_the_same_bytes(data: Path) -> None:
    first = [meme.data for meme in drawn(data, "tune", 6, seed=3)]
    assert [meme.data for meme in drawn(data, "tune", 6, seed=3)] == first
    assert [meme.data for meme in drawn(data, "tune", 3, seed=3)] == first[:3]
    assert [meme.data for meme in drawn(data, "tune", 6, seed=4)] != first


def test_no_template_is_in_both_halves(data: Path) -> None:
    tune = {meme.blank.name for meme in drawn(data, "tune", 16)}
    report = {meme.blank.name for meme in drawn(data, "report", 16)}
    assert tune
    assert report
    assert not tune & report
    assert tune | report == {blank.name for blank in load_blanks(data)}


def test_one_picture_has_one_name(data: Path) -> None:
    names = [name for group in ALIKE for name in group]
    assert len(names) == len(set(names))


def _shown(meme: Drawn) -> NDArray[np.float64]:
    """The template as the meme's truth says that the meme shows it, beside the template; NaN where it shows nothing."""
    pixels = np.asarray(cv2.imdecode(np.frombuffer(meme.data, np.uint8), cv2.IMREAD_GRAYSCALE), np.float32)
    pixels = pixels[:, ::-1] if meme.mirrored else pixels
    height, width = pixels.shape
    template = np.asarray(meme.blank.picture.convert("L"), np.float64)
    tall, wide = template.shape
    (sx, _, dx), (_, sy, dy) = meme.affine
    x, y = ((np.arange(wide) + 0.5) / wide - dx) / sx * width, ((np.arange(tall) + 0.5) / tall - dy) / sy * height
    grid = np.meshgrid((x - 0.5).astype(np.float32), (y - 0.5).astype(np.float32))
    shown = cv2.remap(pixels, grid[0], grid[1], cv2.INTER_LINEAR, borderValue=float("nan"))
    return np.stack([np.asarray(shown, np.float64), template])


@pytest.mark.parametrize("half", ["tune", "report"])
def test_the_truth_says_where_the_template_stands(data: Path, half: str) -> None:
    memes = [*drawn(data, half, 30), *stacked(data, half, 12)]  # type: ignore[arg-type]
    tags = {tag for meme in memes for tag in meme.tags}
    assert tags >= {"crop", "border", "mirror", "watermark", "plain", "strip", "column", "row"}
    for meme in memes:
        shown, template = _shown(meme)
        # Between the texts, where there is no watermark either.
        middle = np.zeros_like(template, bool)
        middle[70:140, 40:260] = True
        middle &= np.isfinite(shown)
        assert middle.sum() > 5000
        assert np.corrcoef(shown[middle], template[middle])[0, 1] > 0.97, meme.tags


def test_memes_may_be_left_unharmed(data: Path) -> None:
    for meme in drawn(data, "tune", 4, harmed=False):
        assert meme.tags == ("plain",)
        assert np.allclose(meme.affine, [[1, 0, 0], [0, 1, 0]])
        assert not meme.mirrored


def test_strangers_are_many_and_differ(data: Path) -> None:
    found = list(strangers(data, "tune", 30))
    assert len(found) == 30
    assert len({picture.tobytes() for picture in found}) > 25
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, islice(strangers(data, "tune", 30), 30), strict=True))
