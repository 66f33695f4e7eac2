"""What of a line the recogniser is shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")

from memeloom.ocr.engines import rapidocr
from memeloom.ocr.engines.rapidocr import RapidOcr, crop_line
from memeloom.ocr.models.networks import Networks, Picture
from tests.ocr.test_lines import Detector
from tests.ocr.test_small_recogniser import CHARACTERS, Network

BAND = slice(100, 116)


def picture() -> Picture:
    """A line: a white band, which is grown by half a band above and below."""
    made = np.zeros((320, 320, 3), np.uint8)
    made[BAND, 40:280] = 255
    return made


class Recogniser(Network):
    """Sees the whole line with the probability `sure`, and the middle of its height as `text` with `middle`."""

    def __init__(self, sure: float, middle: float, text: str = "MIDDLE") -> None:
        super().__init__("LINE", sure)
        self.middle = Network(text, middle)

    def run(self, outputs: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        seen = inputs["x"].mean() > 0
        return self.middle.run(outputs, inputs) if seen else super().run(outputs, inputs)


def read(monkeypatch: pytest.MonkeyPatch, recogniser: Recogniser) -> str:
    made: dict[str, Any] = {"detector": Detector(), "recogniser": recogniser}
    monkeypatch.setattr(rapidocr, "load_network", lambda path: made[path.name])
    engine = RapidOcr(Networks(Path("detector"), Path("recogniser"), CHARACTERS), seconds=60)
    (word,) = engine.read(picture())
    return word.text


@pytest.mark.parametrize(
    ("sure", "middle", "kept"),
    [(0.5, 0.9, "MIDDLE"), (0.85, 0.9, "LINE"), (0.8, 0.3, "LINE"), (0.5, 0.7, "LINE"), (0.65, 1.0, "LINE")],
)
def test_a_doubtful_line_is_read_again_without_what_is_above_and_below(
    sure: float, middle: float, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(monkeypatch, Recogniser(sure, middle)) == kept


def test_a_second_reading_with_fewer_letters_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Recogniser(0.5, 0.99, "MID")) == "LINE"


def test_the_middle_of_a_line_is_as_wide_and_less_high() -> None:
    corners = np.array([[40, 92], [280, 92], [280, 124], [40, 124]], np.float32)
    whole, middle = crop_line(picture(), corners), crop_line(picture(), corners, 0.5)
    assert whole.shape == (48, 360, 3)
    assert middle.shape == (48, 720, 3)
    assert whole[:6].max() == 0
    assert middle[2:-2, 2:-2].min() == 255


def test_the_middle_of_a_line_from_top_to_bottom_is_along_it() -> None:
    corners = np.array([[92, 40], [124, 40], [124, 280], [92, 280]], np.float32)
    turned = np.ascontiguousarray(picture().transpose(1, 0, 2))
    assert crop_line(turned, corners, 0.5).mean() > 240
