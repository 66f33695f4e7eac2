"""Letters read as others of the same look are corrected where only one reading is a word."""

import pytest

from memeloom.engine.steps import Keep
from memeloom.ocr.lookalikes import correct_lookalikes, correct_text
from memeloom.ocr.reading import Reading
from memeloom.ocr.words import WordModel
from tests.ocr.memes import text_line


@pytest.fixture(scope="module")
def model() -> WordModel:
    return WordModel.of(["ask iowa about it"] * 5)


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("cleariy", "clearly"), ("explaln,", "explain,"), ("PEACEFUI", "PEACEFUL"), ("wouidn't", "wouldn't"),
        ("lowa", "Iowa"), ("l", "I"), ("l'm", "I'm"), ("l’ll", "I’ll"), ("b1g", "big"), ("C0LD", "COLD"),
        ("5O", "50"), ("3OK", "30K"), ("$1O,OOO", "$10,OOO"), ("2O2O", "2020"),
    ],
)  # fmt: skip
def test_the_only_word_of_that_look_is_meant(read: str, meant: str, model: WordModel) -> None:
    assert correct_text(read, model) == meant


@pytest.mark.parametrize(
    "word",
    ["will", "jali", "zorblil", "1", "10", "100%", "O", "#cleariy", "@cleariy", "cleariy.com", "le", "GPT4", "l" * 500],
)
def test_words_names_numbers_and_addresses_stay(word: str, model: WordModel) -> None:
    assert correct_text(word, model) == word


def test_a_corrected_word_keeps_its_place(model: WordModel) -> None:
    words = text_line("so cleariy true", 0, y=0.1, height=0.1)
    outcome = correct_lookalikes(model)(Reading(words))
    assert isinstance(outcome, Keep)
    assert [(word.text, word.x) for word in outcome.record.words] == [
        ("so", words[0].x), ("clearly", words[1].x), ("true", words[2].x)
    ]  # fmt: skip


def test_a_one_where_a_caption_has_the_pronoun_is_the_pronoun() -> None:
    model = WordModel.of(["when i am here", "but i need it", "only 1 like", "for 1 day", "number 1 fan"] * 20)

    def corrected(text: str) -> list[str]:
        outcome = correct_lookalikes(model)(Reading(text_line(text, 0, y=0.1, height=0.1)))
        assert isinstance(outcome, Keep)
        return [word.text for word in outcome.record.words]

    assert corrected("when 1 am here") == ["when", "I", "am", "here"]
    assert corrected("1 need it") == ["I", "need", "it"]
    for kept in ("only 1 like", "for 1 day", "number 1", "1", "1. am here", "$1 need"):
        assert corrected(kept) == kept.split()
