"""Both real engines: reading drawn memes, deadlines, missing programs and packages."""

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from memeloom.catalog.records import TemplateBox
from memeloom.configs.extras import MissingExtra
from memeloom.configs.load import load_config
from memeloom.configs.schema import Ocr
from memeloom.ocr.engines.contract import Engine, EngineMissing, ReadFailed
from memeloom.ocr.engines.registry import check_engine, open_engine
from memeloom.ocr.read import read_picture
from memeloom.serve.drawing.fonts import FONT
from tests.ocr.memes import bgr, draw_meme

TOP, BOTTOM = "WHEN THE BUILD IS GREEN", "BUT NOBODY RAN THE TESTS"

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:onnxruntime", "ignore::DeprecationWarning:omegaconf"
)


@pytest.fixture(scope="module", params=["tesseract", "rapidocr"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine, loaded once."""
    if request.param == "rapidocr":
        pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
        pytest.importorskip("onnxruntime", reason="the extra `ocr` is not installed")
    return open_engine(load_config(environment={}).ocr.model_copy(update={"engine": request.param}))


def test_outlined_captions_are_read(engine: Engine, settings: Ocr) -> None:
    ocr = read_picture(bgr(draw_meme(TOP, BOTTOM)), engine, settings).ocr
    assert ocr.text.casefold() == f"{TOP}\n{BOTTOM}".casefold()
    assert ocr.dropped is None
    assert ocr.engine == engine.name
    assert 60 <= ocr.confidence <= 100


def test_dark_text_on_white_is_read(engine: Engine, settings: Ocr) -> None:
    picture = np.full((300, 700, 3), 255, np.uint8)
    cv2.putText(picture, "nobody expects this", (20, 160), cv2.FONT_HERSHEY_SIMPLEX, 1.9, (20, 20, 20), 4)
    assert read_picture(picture, engine, settings).ocr.text.casefold() == "nobody expects this"


def test_words_have_the_boxes_where_they_were_drawn(engine: Engine) -> None:
    below = TemplateBox(x=0.5, y=0.7, width=0.48, height=0.25)
    words = engine.read(bgr(draw_meme("LOWER RIGHT", boxes=(below,))))
    assert [word.text for word in words] == ["LOWER", "RIGHT"]
    for word in words:
        assert 0.45 <= word.x <= word.x + word.width <= 1.0
        assert 0.65 <= word.y <= word.y + word.height <= 1.0


def test_a_caption_has_the_boxes_of_its_template(engine: Engine, settings: Ocr) -> None:
    right = TemplateBox(x=0.52, y=0.05, width=0.45, height=0.2)
    left = TemplateBox(x=0.02, y=0.05, width=0.45, height=0.2)
    low = TemplateBox(x=0.02, y=0.75, width=0.96, height=0.2)
    ocr = read_picture(bgr(draw_meme("RIGHT", "LEFT", boxes=(right, left))), engine, settings, (right, left, low)).ocr
    assert [box.text for box in ocr.boxes] == ["RIGHT", "LEFT", ""]


def test_a_picture_without_text_has_no_text(engine: Engine, settings: Ocr) -> None:
    ocr = read_picture(bgr(draw_meme()), engine, settings).ocr
    assert ocr.dropped in {"no text", "low confidence"}


@pytest.mark.parametrize("size", [16, 18])
def test_close_lines_that_are_found_as_one_are_each_read_once(settings: Ocr, size: int) -> None:
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    rapidocr = open_engine(settings.model_copy(update={"engine": "rapidocr"}))
    drawn, font = Pillow.new("RGB", (800, 800), (60, 60, 100)), ImageFont.truetype(FONT, size)
    lines = (
        "he is a leader who is the",
        "personification of hope and courage,",
        "values, authenticity, and integrity.",
    )
    for line, middle in zip(lines, (60 - size, 60, 60 + int(0.9 * size)), strict=True):
        ImageDraw.Draw(drawn).text((400, middle), line, "white", font, anchor="mm")
    assert " ".join(word.text for word in rapidocr.read(bgr(drawn))) == " ".join(lines)


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (900, 1), (8000, 20), (3, 3)])
def test_odd_shapes_are_read_as_nothing(engine: Engine, settings: Ocr, shape: tuple[int, int]) -> None:
    assert read_picture(np.full((*shape, 3), 127, np.uint8), engine, settings).ocr.dropped == "no text"


def test_a_reading_stops_at_its_deadline(settings: Ocr, engine: Engine) -> None:
    hurried = open_engine(settings.model_copy(update={"engine": engine.name, "image_seconds": 1e-4}))
    with pytest.raises(ReadFailed) as failure:
        hurried.read(bgr(draw_meme(TOP, BOTTOM)))
    assert failure.value.reason == "timeout"


def test_a_missing_program_is_named(settings: Ocr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    with pytest.raises(EngineMissing, match="install the package tesseract-ocr"):
        check_engine(settings.model_copy(update={"engine": "tesseract"}))


def test_a_missing_language_pack_is_named(settings: Ocr) -> None:
    with pytest.raises(EngineMissing, match=r"no language pack 'tlh'.*install the package tesseract-ocr-tlh"):
        open_engine(settings.model_copy(update={"engine": "tesseract", "language": "eng+tlh"}))


@pytest.mark.parametrize("package", ["rapidocr", "onnxruntime", "onnx"])
def test_a_missing_package_is_named(settings: Ocr, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rapidocr", "onnxruntime", "onnx"):
        monkeypatch.setitem(sys.modules, name, sys)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf'needs {package}: pip install "memeloom\[ocr\]"'):
        check_engine(settings.model_copy(update={"engine": "rapidocr"}))


def rapid(settings: Ocr) -> Engine:
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    return open_engine(settings.model_copy(update={"engine": "rapidocr"}))


@pytest.mark.parametrize("degrees", [-15, -6, 8, 20])
def test_a_tilted_caption_is_read(degrees: float, settings: Ocr) -> None:
    tilted = draw_meme(TOP, BOTTOM).rotate(degrees, Pillow.Resampling.BICUBIC, expand=True, fillcolor=(90, 90, 90))
    words = read_picture(bgr(tilted), rapid(settings), settings).ocr.text.upper().split()
    assert sorted(words) == sorted(f"{TOP} {BOTTOM}".split())


def test_all_panels_of_a_tall_meme_are_read(settings: Ocr) -> None:
    texts = [f"PANEL NUMBER {number}" for number in ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX")]
    panels = [bgr(draw_meme(text, seed=seed)) for seed, text in enumerate(texts)]
    ocr = read_picture(np.vstack(panels), rapid(settings), settings).ocr
    assert [box.text for box in ocr.boxes] == texts


@pytest.mark.parametrize("side", [120, 200])
def test_a_small_picture_is_read(side: int, settings: Ocr) -> None:
    small = draw_meme("SMALL TEXT").resize((side, round(side * 5 / 6)), Pillow.Resampling.LANCZOS)
    assert read_picture(bgr(small), rapid(settings), settings).ocr.text.upper() == "SMALL TEXT"
