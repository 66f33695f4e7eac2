"""The small recogniser reads easy lines and leaves the others to the large one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.ocr.engines.contract import Engine
from memeloom.ocr.engines.registry import open_engine
from memeloom.ocr.models.networks import Picture, characters_of, networks

pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
pytest.importorskip("spellchecker", reason="the extra `ocr` is not installed")

from memeloom.configs.schema import Ocr
from memeloom.ocr.engines.rapidocr_small import SmallRecogniser

CHARACTERS = characters_of("eng")
LINE: Picture = np.full((48, 300, 3), 255, np.uint8)


class Network:
    """Reads `text` in every line, each character with the probability `sure`."""

    def __init__(self, text: str, sure: float) -> None:
        self.text, self.sure = text, sure
        self.shapes: list[tuple[int, ...]] = []

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x")]

    def run(self, _outputs: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        self.shapes.append(inputs["x"].shape)
        rows = np.zeros((1, 2 * len(self.text), 1 + len(CHARACTERS)), np.float32)
        rows[0, 1::2, 0] = 1.0
        for place, character in enumerate(self.text):
            rows[0, 2 * place, 1 + CHARACTERS.index(character)] = self.sure
        return [rows]


def texts(network: Network, line: Picture = LINE) -> list[str] | None:
    pieces = SmallRecogniser(network, CHARACTERS).read(line)
    return None if pieces is None else [piece.text for piece in pieces]


@pytest.mark.parametrize(
    ("text", "sure", "read"),
    [
        ("WHEN YOU DON'T", 0.5, True),
        ("WHEN YOU DON'T", 0.2, False),
        ("when theword", 0.99, False),  # a lost space or a name
        ("a b", 0.99, False),
        ("in 2020 -", 0.7, True),
        ("in 2020", 0.5, False),  # no list says which numbers there are
        ("fine -", 0.5, False),
        ("", 0.99, False),
    ],
)
def test_a_line_is_read_if_its_words_are_common_and_surely_seen(text: str, sure: float, read: bool) -> None:
    assert texts(Network(text, sure)) == (text.split() if read else None)


def test_a_word_that_is_read_counts_as_surely_read() -> None:
    pieces = SmallRecogniser(Network("when you", 0.5), CHARACTERS).read(LINE)
    assert pieces is not None
    assert [(piece.confidence, piece.gaps, piece.others) for piece in pieces] == [(0.99, (), ())] * 2


def test_lines_are_scaled_to_its_height_and_very_long_ones_are_left() -> None:
    network = Network("when you", 0.9)
    assert texts(network) == ["when", "you"]
    assert network.shapes == [(1, 3, 32, 200)]
    assert texts(network, np.full((48, 48 * 25, 3), 255, np.uint8)) is None
    assert len(network.shapes) == 1


def test_other_languages_have_none() -> None:
    """It takes accents for plain letters."""
    assert networks("eng").small is not None
    assert networks("eng+deu").small is None


def test_most_lines_of_a_caption_are_read_by_it(settings: Ocr, monkeypatch: pytest.MonkeyPatch) -> None:
    from memeloom.ocr.engines import rapidocr
    from memeloom.ocr.models.samples import lines

    engine: Engine = open_engine(settings)
    assert isinstance(engine, rapidocr.RapidOcr)
    large = list[Picture]()
    read_line = rapidocr.read_line

    def counted(network: Any, characters: str, line: Picture) -> Any:
        large.append(line)
        return read_line(network, characters, line)

    monkeypatch.setattr(rapidocr, "read_line", counted)
    drawn = list(lines(24))
    found = [
        " ".join(word.text for word in engine.read(np.pad(line, ((40, 40), (20, 20), (0, 0)), mode="edge")))
        for line in drawn
    ]
    assert sum(bool(text) for text in found) >= 20
    assert len(large) <= 12
