"""Pictures that lie on their side, stand on their head or are mirrored are read; what makes no sense is dropped."""

from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.catalog.records import OcrBox, Turn
from memeloom.configs.schema import Ocr
from memeloom.ocr import turning
from memeloom.ocr.engines.contract import Engine, Word
from memeloom.ocr.engines.registry import open_engine
from memeloom.ocr.read import read_picture
from memeloom.ocr.turning import is_nonsense, turn_back
from memeloom.ocr.words import WordModel
from tests.ocr.memes import bgr, draw_meme

TOP, BOTTOM = "WHEN THE BUILD IS GREEN", "BUT NOBODY RAN THE TESTS"
Picture = NDArray[np.uint8]

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:onnxruntime", "ignore::DeprecationWarning:omegaconf"
)


@pytest.fixture(scope="module")
def model() -> WordModel:
    return WordModel.of([f"{TOP} {BOTTOM}"] * 3)


@pytest.fixture
def engine(settings: Ocr) -> Engine:
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    return open_engine(settings.model_copy(update={"engine": "rapidocr"}))


def as_found(picture: Picture, turn: Turn) -> Picture:
    """The picture before it is turned upright."""
    if turn == "mirrored":
        return np.ascontiguousarray(picture[:, ::-1])
    return np.asarray(np.rot90(picture, int(turn) // 90), np.uint8).copy()


@pytest.mark.parametrize("turn", ["90", "180", "270", "mirrored"])
def test_a_turned_meme_is_read_in_order_and_its_boxes_lie_where_the_words_are(
    engine: Engine, settings: Ocr, model: WordModel, turn: Turn
) -> None:
    meme = bgr(draw_meme(TOP, BOTTOM))
    upright = read_picture(meme, engine, settings, words=model).ocr
    found = as_found(meme, turn)
    ocr = read_picture(found, engine, settings, words=model).ocr
    assert (ocr.text, ocr.turned, upright.turned) == (f"{TOP}\n{BOTTOM}", turn, None)
    height, width = found.shape[:2]
    for box, straight in zip(ocr.boxes, upright.boxes, strict=True):
        mask = np.zeros((height, width), np.uint8)
        corner = round(box.x * width), round(box.y * height)
        end = round((box.x + box.width) * width), round((box.y + box.height) * height)
        cv2.rectangle(mask, corner, end, 255, -1)
        # The same place of the meme, turned as the picture is.
        place = np.zeros(meme.shape[:2], np.uint8)
        rows, columns = meme.shape[:2]
        left, top = round(straight.x * columns), round(straight.y * rows)
        right, bottom = round((straight.x + straight.width) * columns), round((straight.y + straight.height) * rows)
        cv2.rectangle(place, (left, top), (right, bottom), 255, -1)
        turned = as_found(place, turn)
        assert (mask & turned).sum() >= 0.8 * (mask | turned).sum()


def test_an_upright_meme_is_read_once(settings: Ocr, model: WordModel, engine: Engine) -> None:
    class Counting:
        name, times = "counting", 0

        def read(self, picture: Picture) -> list[Word]:
            self.times += 1
            return engine.read(picture)

    counting = Counting()
    assert read_picture(bgr(draw_meme(TOP, BOTTOM)), counting, settings, words=model).ocr.turned is None
    assert counting.times == 1


@pytest.mark.parametrize(("seconds", "reads"), [(10, 1), (25, 2), (35, 3), (100, 5)])
def test_a_doubtful_picture_is_read_again_while_there_is_time(
    settings: Ocr, model: WordModel, monkeypatch: pytest.MonkeyPatch, seconds: float, reads: int
) -> None:
    class Slow:
        name, now = "slow", 0.0

        def read(self, _: Picture) -> list[Word]:
            self.now += 10
            return [Word("NEEЯG", 0.1, 0.1, 0.3, 0.1, 50, 0)]

    engine = Slow()
    monkeypatch.setattr(turning, "time", SimpleNamespace(monotonic=lambda: engine.now))
    limited = settings.model_copy(update={"image_seconds": seconds})
    read_picture(np.zeros((200, 300, 3), np.uint8), engine, limited, words=model)
    assert engine.now == 10 * reads


def test_doubtful_words_that_nobody_knows_are_nonsense(settings: Ocr, model: WordModel) -> None:
    class Fixed:
        name = "fixed"

        def __init__(self, confidence: float, *texts: str) -> None:
            self.words = [Word(text, 0.1 + 0.2 * n, 0.1, 0.15, 0.1, confidence, 0) for n, text in enumerate(texts)]

        def read(self, _: Picture) -> list[Word]:
            return self.words

    picture = np.zeros((200, 300, 3), np.uint8)
    for engine, dropped in (
        (Fixed(71, "NEEЯG", "SI", "DLIUB", "ƎHT"), "nonsense"),
        (Fixed(95, "NEEЯG", "SI", "DLIUB", "ƎHT"), None),  # a name, or another language
        (Fixed(71, "WHEN", "THE", "BUILD", "XQZ"), None),
    ):
        assert read_picture(picture, engine, settings, words=model).ocr.dropped == dropped
        assert is_nonsense(engine.words, model) == (dropped is not None)


def test_boxes_are_turned_back() -> None:
    line = (0.1, 0.2, 0.3, 0.05)
    box = OcrBox(text="a", x=0.1, y=0.2, width=0.3, height=0.05, confidence=99, lines=(line,))
    places = {turn: turn_back(box, turn) for turn in ("90", "180", "270", "mirrored", None)}
    corners = {turn: tuple(round(v, 9) for v in (b.x, b.y, b.width, b.height)) for turn, b in places.items()}
    assert corners == {
        "90": (0.2, 0.6, 0.05, 0.3), "180": (0.6, 0.75, 0.3, 0.05), "270": (0.75, 0.1, 0.05, 0.3),
        "mirrored": (0.6, 0.2, 0.3, 0.05), None: (0.1, 0.2, 0.3, 0.05),
    }  # fmt: skip
    assert all(each.lines == ((each.x, each.y, each.width, each.height),) for each in places.values())
