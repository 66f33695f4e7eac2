"""Drawn memes say what they are made of, look so, and come out the same every time."""

import gzip
import io
import json
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageChops

from bench.ocr_drawn import drawn_memes, is_usable
from bench.ocr_letters import Look, draw, fit, height
from bench.ocr_scripts import script_of
from memeloom.catalog.records import TemplateBox
from memeloom.serve.drawing.fonts import FONT

pytestmark = pytest.mark.skipif(shutil.which("fc-list") is None, reason="fontconfig is not installed")
SLUGS = [f"Made-Up-{number}" for number in range(8)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder as the bench reads it: eight templates of plain grey, four captions on each."""
    (tmp_path / "templates").mkdir()
    Image.new("RGB", (500, 400), (90, 90, 90)).save(tmp_path / "templates" / "grey.png")
    entries = [
        {"file": "grey.png", "name": slug, "imgflip_id": str(number), "imgflip_slug": slug, "alt_names": [],
         "width": 500, "height": 400, "box_css": []}
        for number, slug in enumerate(SLUGS)
    ]  # fmt: skip
    (tmp_path / "templates" / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    chance = Random(1)
    with gzip.open(tmp_path / "imgflip_captions.jsonl.gz", "wt", encoding="utf-8") as lines:
        for number in range(4 * len(SLUGS)):
            words = [chance.choice(["green", "tests", "build", "again", "nobody"]) for _ in range(6)]
            row = {"template": SLUGS[number % len(SLUGS)], "post": f"https://imgflip.com/i/{number + 100}",
                   "image_url": "x.jpg", "title": "t", "views": 1, "votes": 1,
                   "boxes": [" ".join(words[:3]), " ".join(words[3:])]}  # fmt: skip
            lines.write(json.dumps(row) + "\n")
    return tmp_path


def test_memes_are_the_same_bytes_every_time(data: Path) -> None:
    first = list(drawn_memes(data, "tune", 6))
    assert list(drawn_memes(data, "tune", 6)) == first
    assert list(drawn_memes(data, "tune", 3)) == first[:3]


def test_no_template_is_in_both_halves(data: Path) -> None:
    tune = {meme.slug for meme in drawn_memes(data, "tune", 16)}
    report = {meme.slug for meme in drawn_memes(data, "report", 16)}
    assert tune == {slug for slug in SLUGS if is_usable(slug, "tune")}
    assert report == {slug for slug in SLUGS if is_usable(slug, "report")}
    assert tune
    assert report
    assert not tune & report
    assert not is_usable("Left-Exit-12-Off-Ramp", "tune")
    assert not is_usable("Left-Exit-12-Off-Ramp", "report")


def test_each_meme_says_what_stands_where(data: Path) -> None:
    for meme in drawn_memes(data, "tune", 12):
        picture = np.asarray(Image.open(io.BytesIO(meme.data)).convert("L"), np.int16)
        tall, wide = picture.shape
        assert len(meme.texts) == len(meme.boxes)
        for text, box in zip(meme.texts, meme.boxes, strict=True):
            inside = picture[round(box.y * tall) : round((box.y + box.height) * tall),
                             round(box.x * wide) : round((box.x + box.width) * wide)]  # fmt: skip
            assert text
            # The template is plain, so letters are what differs from the ground.
            assert np.ptp(inside) > 80


def test_text_stays_in_its_box_and_fills_it() -> None:
    box = TemplateBox(x=0.25, y=0.25, width=0.5, height=0.5)
    look = Look((255, 255, 255), (0, 0, 0), 0.1)
    fitted = fit("SOME WORDS THAT NEED SEVERAL LINES", FONT, look, (300, 200), (8, 200))
    assert fitted is not None
    assert len(fitted.lines) > 1
    assert " ".join(fitted.lines) == "SOME WORDS THAT NEED SEVERAL LINES"
    assert 100 < height(fitted, look) <= 200
    plain = Image.new("RGB", (600, 400), (90, 90, 90))
    canvas = plain.copy()
    draw(canvas, box, fitted, look)
    left, top, right, bottom = ImageChops.difference(canvas, plain).getbbox() or (0, 0, 0, 0)
    assert 150 <= left < right <= 450
    assert 100 <= top < bottom <= 300
    assert bottom - top >= height(fitted, look) - 4  # nothing is cut off
    assert fit("IMPOSSIBLYLONGWORD", FONT, look, (40, 200), (8, 200)) is None


@pytest.mark.parametrize("language", ["hin", "rus"])
def test_captions_in_other_scripts_are_drawn(data: Path, language: str) -> None:
    script = script_of(language)
    try:
        memes = list(drawn_memes(data, "tune", 4, script))
    except OSError as error:
        pytest.skip(str(error))
    said = {part for caption in script.captions for part in (" ".join(caption), *caption)}
    assert {text.lower() for meme in memes for text in meme.texts if text} <= {text.lower() for text in said}
