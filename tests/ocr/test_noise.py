"""Noise in photos and screenshots is removed with a reason; captions are kept."""

from collections.abc import Sequence

import pytest

from memeloom.engine.steps import Drop, Keep
from memeloom.ocr.cleaning import Step
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.noise import drop_columns, drop_screen, drop_small_print, need_words
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import WordModel
from tests.ocr.memes import text_line


def caption() -> tuple[Word, ...]:
    return text_line("WHEN THE CAPTION", 0, y=0.1, height=0.08) + text_line("IS LARGE AND SURE", 1, y=0.2, height=0.08)


def left_of(step: Step, reason: str, *lines: Sequence[Word]) -> list[str]:
    """What `step` leaves of the lines beside the caption; what it takes out has that `reason`."""
    outcome = step(Reading(caption() + tuple(word for words in lines for word in words)))
    assert isinstance(outcome, Keep)
    words = outcome.record.words
    size = len(caption())
    assert words[:size] == caption()
    assert [why for _, why in outcome.record.removed] == [reason] * (sum(map(len, lines)) - len(words) + size)
    return [word.text for word in words[size:]]


@pytest.mark.parametrize("chrome", ["9:41 AM 100%", "21%", "8:52 PM Mon Sep 21", "carrier 5:42", "12.05pm"])
def test_clock_and_battery_are_removed(chrome: str) -> None:
    assert left_of(drop_screen, "screen", text_line(chrome, 2, y=0.01, height=0.03)) == []


def test_text_beside_the_clock_is_removed() -> None:
    row = text_line("CARRIER", 2, y=0.005, height=0.03), text_line("9:41 AM", 3, x=0.5, y=0.01, height=0.025)
    below = text_line("Search", 4, y=0.05, height=0.03)
    assert left_of(drop_screen, "screen", *row, below) == ["Search"]


@pytest.mark.parametrize(
    ("text", "y", "height"),
    [
        ("AT 3:00 AM", 0.01, 0.08),  # as large as the caption
        ("at 3:00 am", 0.5, 0.03),  # not at the top
        ("John 3:165 and me", 0.01, 0.03),  # no clock
        ("up at 3:00 am to be or so", 0.01, 0.03),  # a sentence
    ],
)
def test_times_in_captions_are_kept(text: str, y: float, height: float) -> None:
    assert left_of(drop_screen, "screen", text_line(text, 2, y=y, height=height)) == text.split()


PARAGRAPH = ("as they told us all last year", 0.1, 0.6, 0.03)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([("FREE PARKING", 0.1, 0.6, 0.03), ("BEHIND", 0.1, 0.64, 0.03)], ""),  # a few small words
        ([("as they told us all", 0.1, 0.6, 0.03), ("last year", 0.1, 0.64, 0.03)], PARAGRAPH[0]),
        ([PARAGRAPH, ("SIGN", 0.1, 0.8, 0.03)], PARAGRAPH[0]),  # far from the paragraph
        ([PARAGRAPH, ("SIGN", 0.9, 0.64, 0.03)], PARAGRAPH[0]),
        ([("Somebody", 0.1, 0.94, 0.05)], ""),  # medium words go only at the edge
        ([("Somebody", 0.1, 0.6, 0.05)], "Somebody"),
        ([("BOTTOM TEXT", 0.1, 0.9, 0.06)], "BOTTOM TEXT"),  # a slightly smaller second box
    ],
)
def test_few_small_words_are_removed(lines: list[tuple[str, float, float, float]], left: str) -> None:
    words = (text_line(text, 2 + n, x=x, y=y, height=height) for n, (text, x, y, height) in enumerate(lines))
    assert left_of(drop_small_print(None), "small print", *words) == left.split()


@pytest.mark.parametrize(
    ("text", "confidence", "y", "left"),
    [
        ("he said hello", 99.0, 0.5, "he said hello"),  # a speech bubble
        ("he said hello", 96.0, 0.5, ""),
        ("he said hello", 99.0, 0.96, ""),
        ("he said", 99.0, 0.5, ""),
        ("he said blorbs", 99.0, 0.5, ""),
        ("- Morgan Freeman", 92.0, 0.94, "- Morgan Freeman"),  # under a quotation
        ("-- 20", 99.0, 0.94, ""),
    ],
)
def test_sure_sentences_and_names_under_quotations_are_kept(
    text: str, confidence: float, y: float, left: str, model: WordModel
) -> None:
    small = text_line(text, 2, y=y, height=0.03, confidence=confidence)
    assert left_of(drop_small_print(model), "small print", small) == left.split()


def test_a_small_caption_alone_is_kept() -> None:
    reading = Reading(text_line("tiny words", 0, y=0.02, height=0.01))
    assert drop_small_print(None)(reading) == Keep(reading)


def test_columns_of_letters_are_removed_but_a_single_letter_is_kept() -> None:
    column = [text_line(letter, 2 + place, y=0.3 + 0.1 * place, height=0.08) for place, letter in enumerate("GUNS")]
    assert left_of(drop_columns, "column", *column) == []
    assert left_of(drop_columns, "column", column[0]) == ["G"]
    row = [text_line(letter, 2 + place, x=0.1 + 0.2 * place, y=0.5, height=0.08) for place, letter in enumerate("GUNS")]
    assert left_of(drop_columns, "column", *row) == list("GUNS"), "letters set apart"


def test_a_rotated_line_is_removed() -> None:
    credit = [Word(text, 0.95 + 0.01 * place, 0.2, 0.01, 0.5, 97.0, 2) for place, text in enumerate(("Some", "Body"))]
    assert left_of(drop_columns, "column", credit) == []


def test_tall_letters_are_kept() -> None:
    assert left_of(drop_columns, "column", [Word("MASSIVE", 0.02, 0.3, 0.96, 0.6, 97.0, 2)]) == ["MASSIVE"]


@pytest.fixture(scope="module")
def model() -> WordModel:
    return WordModel.of(["he said hello to the zorblax"] * 50 + ["ee", "ee"] + ["what a caption"] * 100)


@pytest.mark.parametrize("noise", ["HEIP", "GBS", "ee", "58122920", "Q123RP", "ynn Eptein"])
def test_low_confidence_nonwords_are_removed(noise: str, model: WordModel) -> None:
    doubtful = text_line(noise, 2, y=0.6, height=0.08, confidence=80)
    assert left_of(need_words(model), "not a word", doubtful) == []


@pytest.mark.parametrize("noise", ["HEIP", "GBS", "ee", "58122920"])
def test_high_confidence_nonwords_are_kept(noise: str, model: WordModel) -> None:
    assert left_of(need_words(model), "not a word", text_line(noise, 2, y=0.6, height=0.08, confidence=95)) == [noise]


@pytest.mark.parametrize("text", ["HE", "Zorblax", "hello HEIP", "GBS grmpf HEIP"])
def test_known_words_and_long_lines_are_kept(text: str, model: WordModel) -> None:
    doubtful = text_line(text, 2, y=0.6, height=0.08, confidence=80)
    assert left_of(need_words(model), "not a word", doubtful) == text.split()


def test_without_a_model_only_consonants_are_removed() -> None:
    step = need_words(None)
    for noise in ("GRMPF", "lvl xx"):
        assert left_of(step, "not a word", text_line(noise, 2, y=0.6, height=0.08, confidence=80)) == []
    for text in ("HEIP", "2020", "नमस्ते", "мгм", "GRMPF really"):
        assert left_of(step, "not a word", text_line(text, 2, y=0.6, height=0.08, confidence=80)) == text.split()


def test_a_reading_without_words_is_dropped(model: WordModel) -> None:
    noise = Reading(text_line("GBS", 0, y=0.6, height=0.08, confidence=80))
    assert need_words(model)(noise) == Drop("not words")
    assert need_words(None)(noise) == Drop("not words")
    assert need_words(model)(Reading(())) == Keep(Reading(()))
