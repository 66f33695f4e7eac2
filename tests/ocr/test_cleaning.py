"""Cleaning steps: what they remove or drop, and the reason."""

import pytest

from memeloom.configs.schema import Ocr
from memeloom.engine.steps import Drop, Keep, apply_steps
from memeloom.ocr.cleaning import cleaning_steps, keep_confident_words, limit_words, need_text, replace_bars
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import WordModel


def reading(*lines: str, confidence: float = 95.0) -> Reading:
    """Each text a line, its words side by side."""
    return Reading(
        tuple(
            Word(text, 0.1 + 0.1 * place, 0.1 * number, 0.08, 0.05, confidence, number)
            for number, line in enumerate(lines)
            for place, text in enumerate(line.split())
        )
    )


def reasons(outcome: Keep[Reading] | Drop) -> list[tuple[str, str]]:
    """The texts of the words that were taken out, each with its reason."""
    assert isinstance(outcome, Keep)
    return [(word.text, reason) for word, reason in outcome.record.removed]


def cleaned(found: Reading, settings: Ocr, model: WordModel | None = None) -> tuple[list[str], str | None]:
    """The texts left by all steps, and the reason if the reading was dropped."""
    left, drop = apply_steps(cleaning_steps(settings, model), found)
    return [word.text for word in left.words], drop.reason if drop else None


def texts(outcome: Keep[Reading] | Drop) -> list[str]:
    assert isinstance(outcome, Keep)
    return [word.text for word in outcome.record.words]


@pytest.mark.parametrize("lines", [(), ("|",), ("~ - .", "!")])
def test_readings_without_letters_are_dropped(lines: tuple[str, ...]) -> None:
    assert need_text(reading(*lines)) == Drop("no text")
    assert texts(need_text(reading("NO", *lines)))[0] == "NO"


def test_bars_become_the_letter_i() -> None:
    assert texts(replace_bars(reading("| AM | TH|NK"))) == ["I", "AM", "I", "THINK"]
    assert texts(replace_bars(reading("я | ду|маю"))) == ["я", "думаю"], "Cyrillic has no such letter"


def test_low_confidence_words_are_removed() -> None:
    sure, unsure = reading("one two"), reading("ghost", confidence=31)
    outcome = keep_confident_words(Reading(sure.words + unsure.words), 60)
    assert texts(outcome) == ["one", "two"]
    assert reasons(outcome) == [("ghost", "low confidence")]


def test_a_reading_of_low_confidence_words_is_dropped() -> None:
    assert keep_confident_words(reading("ghost words", confidence=59.9), 60) == Drop("low confidence")


def test_specks_are_removed_but_punctuation_in_a_line_is_kept() -> None:
    outcome = keep_confident_words(reading("WAIT - WHAT ?", "| ~"), 60)
    assert texts(outcome) == ["WAIT", "-", "WHAT", "?"]
    assert reasons(outcome) == [("|", "speck"), ("~", "speck")]


def test_a_single_character_needs_a_high_confidence() -> None:
    caption = reading("press to pay respects").words
    doubtful, sure = (Word("F", 0.5, 0.8, 0.05, 0.1, confidence, 7) for confidence in (89.0, 90.0))
    assert texts(keep_confident_words(Reading((*caption, doubtful)), 60))[-1] == "respects"
    assert texts(keep_confident_words(Reading((*caption, sure)), 60))[-1] == "F"


def test_a_page_of_text_is_dropped() -> None:
    page = reading(*(["word " * 9] * 9))
    assert limit_words(page, 80) == Drop("too much text")
    assert limit_words(page, 81) == Keep(page)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (reading("imgflip.com"), "no text"),
        (reading("HELLO THERE", confidence=10), "low confidence"),
        (reading("word " * 100), "too much text"),
        (reading("GRMPF", confidence=80), "not words"),
    ],
)
def test_all_steps_drop_with_the_reason(settings: Ocr, found: Reading, reason: str) -> None:
    assert cleaned(found, settings)[1] == reason


def test_all_steps_keep_a_caption_without_its_watermark(settings: Ocr) -> None:
    assert cleaned(reading("HELLO THERE", "imgflip.com"), settings) == (["HELLO", "THERE"], None)


def test_a_word_model_restores_spaces_and_removes_noise(settings: Ocr) -> None:
    model = WordModel.of(["hello there my friend"] * 10)
    glued, noise = reading("HELLOTHERE"), reading("hello", "gorp", confidence=85)
    assert cleaned(glued, settings)[0] == ["HELLOTHERE"]
    assert cleaned(glued, settings, model)[0] == ["HELLO", "THERE"]
    assert cleaned(noise, settings)[0] == ["hello", "gorp"]
    assert cleaned(noise, settings, model)[0] == ["hello"]


def test_all_steps_remove_signs_screens_and_columns(settings: Ocr) -> None:
    caption = reading("WHEN THE CAPTION IS LARGE").words
    around = [Word("9:41", 0.1, 0.01, 0.05, 0.03, 97, 1), Word("PARKING", 0.4, 0.6, 0.1, 0.02, 97, 2)]
    around += [Word(letter, 0.9, 0.2 + 0.1 * n, 0.03, 0.05, 97, 3 + n) for n, letter in enumerate("GUNS")]
    left, drop = apply_steps(cleaning_steps(settings), Reading((*caption, *around)))
    assert drop is None
    assert left.words == caption
    assert {reason for _, reason in left.removed} == {"screen", "small print", "column"}
