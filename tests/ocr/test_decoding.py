"""Decoding the recogniser's output: half-seen spaces and apostrophes count, and doubtful words have other readings."""

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.ocr.engines.rapidocr_text import decode

CHARACTERS = "abcdefghijklmnopqrstuvwxyz.'’ "


def output(text: str, *seen: tuple[int, str, float]) -> NDArray[np.float32]:
    """A row for each character of `text`, ``_`` for a blank, nearly certain; seen: row, character, probability."""
    rows = np.full((len(text), 1 + len(CHARACTERS)), 1e-6, np.float32)
    for row, character in enumerate(text):
        rows[row, 0 if character == "_" else 1 + CHARACTERS.index(character)] = 1.0
    for row, character, probability in seen:
        rows[row] *= 1 - probability
        rows[row, 0 if character == "_" else 1 + CHARACTERS.index(character)] = probability
    return rows


def texts(rows: NDArray[np.float32]) -> list[str]:
    return [piece.text for piece in decode(rows, CHARACTERS)]


def test_a_character_is_one_run_of_rows() -> None:
    assert texts(output("hee_l_llo")) == ["hello"]
    assert texts(output("to be_")) == ["to", "be"]


@pytest.mark.parametrize(("probability", "read"), [(0.02, ["madea"]), (0.05, ["made", "a"])])
def test_a_space_that_is_half_seen_between_letters_counts(probability: float, read: list[str]) -> None:
    assert texts(output("made_a", (4, " ", probability))) == read


def test_a_space_beside_punctuation_must_be_more_likely() -> None:
    assert texts(output("so._a", (3, " ", 0.05))) == ["so.a"]
    assert texts(output("so._a", (3, " ", 0.2))) == ["so.", "a"]


@pytest.mark.parametrize(("probability", "read"), [(0.02, ["dont"]), (0.1, ["don't"])])
def test_an_apostrophe_that_is_half_seen_between_letters_counts(probability: float, read: list[str]) -> None:
    assert texts(output("don_t", (3, "'", probability))) == read


def test_an_apostrophe_is_not_seen_twice() -> None:
    assert texts(output("don_'_t", (3, "'", 0.4), (5, "'", 0.4))) == ["don't"]


def test_gaps_tell_how_likely_a_space_is() -> None:
    (piece,) = decode(output("do_n_t", (2, " ", 0.02), (4, "'", 0.1)), CHARACTERS)
    assert piece.text == "don't"
    assert piece.gaps == pytest.approx((0, 0.02, 0, 0), abs=1e-5)


def test_sure_words_have_no_other_readings() -> None:
    assert decode(output("sure"), CHARACTERS)[0].others == ()


def test_doubtful_words_have_others_with_their_probabilities() -> None:
    found, word = decode(output("tound it", (0, "f", 0.4)), CHARACTERS)
    assert (found.text, word.others) == ("tound", ())
    ((other, ratio),) = found.others
    assert other == "found"
    assert ratio == pytest.approx(0.4 / 0.6, rel=1e-3)


def test_others_have_letters_more_or_fewer() -> None:
    (more,) = decode(output("hi_ler", (2, "t", 0.3)), CHARACTERS)
    assert more.text == "hiler"
    assert [text for text, _ in more.others] == ["hitler"]
    (fewer,) = decode(output("x_if", (0, "_", 0.45)), CHARACTERS)
    assert [text for text, _ in fewer.others] == ["if"]


def test_others_do_not_differ_by_apostrophes_alone() -> None:
    (piece,) = decode(output("don_t", (3, "'", 0.3)), CHARACTERS)
    assert (piece.text, piece.others) == ("don't", ())
