"""The small recogniser reads easy words and leaves the others to the large one."""

from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.ocr.engines.contract import Engine
from memeloom.ocr.engines.registry import open_engine
from memeloom.ocr.models.networks import Picture, characters_of, networks

pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
pytest.importorskip("spellchecker", reason="the extra `ocr` is not installed")

from memeloom.configs.schema import Ocr
from memeloom.ocr.engines.rapidocr_small import SmallRecogniser, Span

CHARACTERS = characters_of("eng")
LINE: Picture = np.full((48, 1100, 3), 255, np.uint8)


class Network:
    """Reads `text` in every line, each character with the probability `sure`, each space with `space`."""

    def __init__(self, text: str, sure: float, space: float | None = None) -> None:
        self.text, self.sure = text, sure
        self.space = sure if space is None else space
        self.shapes: list[tuple[int, ...]] = []

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x")]

    def run(self, _outputs: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        self.shapes.append(inputs["x"].shape)
        rows = np.zeros((1, 2 * len(self.text), 1 + len(CHARACTERS)), np.float32)
        rows[0, 1::2, 0] = 1.0
        for place, character in enumerate(self.text):
            rows[0, 2 * place, 1 + CHARACTERS.index(character)] = self.space if character == " " else self.sure
        return [rows]


def texts(network: Network, line: Picture = LINE) -> list[str]:
    """The words that are read, and "_" for each span that is not."""
    parts = SmallRecogniser(network, CHARACTERS).read(line)
    return ["_" if isinstance(part, Span) else part.text for part in parts]


@pytest.mark.parametrize(
    ("text", "sure", "read"),
    [
        ("WHEN YOU DON'T", 0.5, "WHEN YOU DON'T"),
        ("WHEN YOU DON'T", 0.2, "_"),
        ("when theword", 0.99, "when _"),  # a lost space or a name
        ("when theword or oneword", 0.99, "when _ or _"),
        ("theword oneword when", 0.99, "_ when"),
        ("a b", 0.99, "a _"),
        ("in 2020 -", 0.7, "in 2020 -"),
        ("in 2020", 0.5, "_"),  # no list says which numbers there are
        ("fine -", 0.5, "_"),
        ("", 0.99, "_"),
    ],
)
def test_words_are_read_that_are_common_and_surely_seen(text: str, sure: float, read: str) -> None:
    assert texts(Network(text, sure)) == read.split()


@pytest.mark.parametrize(("space", "read"), [(0.96, "_ or not"), (0.9, "_")])
def test_a_word_beside_a_doubtful_one_may_be_half_of_it(space: float, read: str) -> None:
    assert texts(Network("metaph or not", 0.99, space)) == read.split()


def test_a_narrow_span_takes_in_the_words_beside_it() -> None:
    assert texts(Network("it is the x of the year", 0.99)) == ["it", "is", "_", "the", "year"]


def test_spans_end_in_the_middle_of_spaces() -> None:
    parts = SmallRecogniser(Network("so theword fits", 0.99), CHARACTERS).read(LINE)
    spans = [part for part in parts if isinstance(part, Span)]
    # 15 characters of two columns each: the spaces are in columns 4 and 20 of 30.
    assert spans == [Span(4.5 / 30, 20.5 / 30)]


def test_a_word_that_is_read_keeps_its_confidence_and_has_no_other_reading() -> None:
    parts = SmallRecogniser(Network("when you", 0.5), CHARACTERS).read(LINE)
    pieces = [part for part in parts if not isinstance(part, Span)]
    assert [(piece.confidence, piece.gaps, piece.others) for piece in pieces] == [(0.5, (), ())] * 2


def test_lines_are_scaled_to_its_height_and_very_long_ones_are_left() -> None:
    network = Network("when you", 0.9)
    assert texts(network, np.full((48, 300, 3), 255, np.uint8)) == ["when", "you"]
    assert network.shapes == [(1, 3, 32, 200)]
    assert texts(network, np.full((48, 48 * 25, 3), 255, np.uint8)) == ["_"]
    assert len(network.shapes) == 1


def test_other_languages_have_none() -> None:
    """It takes accents for plain letters."""
    assert networks("eng").small is not None
    assert networks("eng+deu").small is None


def test_spans_are_read_by_the_large_recogniser_and_placed_in_their_line(
    settings: Ocr, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memeloom.ocr.engines import rapidocr

    engine = open_engine(settings)
    assert isinstance(engine, rapidocr.RapidOcr)
    picture = np.full((200, 600, 3), 255, np.uint8)
    cv2.putText(picture, "when the frobz is not", (20, 120), cv2.FONT_HERSHEY_DUPLEX, 1.4, (0, 0, 0), 3)
    widths = list[float]()
    read_line = rapidocr.read_line

    def noted(network: Any, characters: str, line: Picture) -> Any:
        widths.append(line.shape[1] / line.shape[0])
        return read_line(network, characters, line)

    monkeypatch.setattr(rapidocr, "read_line", noted)
    words = engine.read(picture)
    assert [word.text for word in words] == ["when", "the", "frobz", "is", "not"]
    assert [word.x for word in words] == sorted(word.x for word in words)
    assert len(widths) == 1, "one word needs the large recogniser"
    assert widths[0] < 9, "and it reads no more than that word and the two beside it"


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
