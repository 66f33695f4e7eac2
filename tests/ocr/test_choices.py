"""Doubtful words are read as the known word of nearly the same shape, or stay."""

import pytest

from memeloom.engine.steps import Keep
from memeloom.ocr.choices import choose_readings
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import WordModel


@pytest.fixture(scope="module")
def model() -> WordModel:
    return WordModel.of([])


def chosen(text: str, *others: tuple[str, float], model: WordModel, rest: str = "this is what they said") -> str:
    first = Word(text, 0.1, 0.1, 0.1, 0.1, 80.0, 0, others=others)
    words = (first, *(Word(each, 0.3, 0.1, 0.1, 0.1, 90.0, 0) for each in rest.split()))
    outcome = choose_readings(model)(Reading(words))
    assert isinstance(outcome, Keep)
    return outcome.record.words[0].text


@pytest.mark.parametrize(
    ("read", "others", "meant"),
    [
        ("tound", [("found", 0.7)], "found"),
        ("SCIENTINC", [("SCIENTINE", 0.3), ("SCIENTIFIC", 0.2)], "SCIENTIFIC"),
        ("te.", [("te,", 0.5), ("the.", 0.4)], "the."),
    ],
)
def test_a_known_word_that_is_nearly_as_likely_is_meant(
    read: str, others: list[tuple[str, float]], meant: str, model: WordModel
) -> None:
    assert chosen(read, *others, model=model) == meant


@pytest.mark.parametrize(
    ("read", "others"),
    [
        ("tound", [("found", 0.001)]),  # too unlikely by its shape
        ("lung", [("long", 0.1)]),  # both are words
        ("Zorblax", [("Zorbiax", 0.9)]),  # no word either
        ("18", [("is", 0.9)]),
        ("the", [("of the", 0.9)]),
    ],
)
def test_other_words_stay(read: str, others: list[tuple[str, float]], model: WordModel) -> None:
    assert chosen(read, *others, model=model) == read


def test_words_of_other_languages_stay(model: WordModel) -> None:
    assert chosen("hal", ("hat", 0.9), ("half", 0.9), model=model, rest="bahut thand lagti bhai nahaunga") == "hal"
    assert chosen("hil", ("hill", 0.9), model=model, rest="bahut thand lagti bhai nahaunga") == "hil"
