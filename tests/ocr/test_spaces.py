"""Lost spaces are restored; names and rare words stay whole."""

from dataclasses import replace

import pytest

from memeloom.engine.steps import Keep
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.reading import Reading
from memeloom.ocr.spaces import remove_spaces, restore_spaces, split_text
from memeloom.ocr.words import WordModel
from tests.ocr.memes import text_line

# What a small catalog says: each often enough to be believed.
CAPTIONS = [
    "and the winner is", "the strasse and the winner", "this is a test of the winner", "to be or not to be",
    "forever alone again", "ask him. And go", "what if you forget the alligator", "vote for the alligator in 2020",
    "i haven't seen the winner", "covid19 is here", "it is what it is", "a lot of alligators",
    "alot of people say alot", "is a man of the people", "he said you are",
]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> WordModel:
    return WordModel.of(CAPTIONS * 400 + [f"seldom{number}" for number in range(400)])


@pytest.mark.parametrize(
    ("glued", "words"),
    [
        ("ANDTHEWINNERIS", "AND THE WINNER IS"),
        ("isa", "is a"),
        ("tobe", "to be"),
        ("ForeverAlone", "Forever Alone"),
        ("ihaven't", "i haven't"),
        ("ihaven’t", "i haven’t"),
        ("THEALLIGATOR,", "THE ALLIGATOR,"),
        ('"whatif', '"what if'),
        ("in2020", "in 2020"),
        ("him.And", "him. And"),
        ("it!!Is", "it!! Is"),
        ("'winner'and", "'winner' and"),
        ("people...youforget", "people... you forget"),
        ("ain'tso", "ain't so"),
    ],
)
def test_lost_spaces_are_restored(glued: str, words: str, model: WordModel) -> None:
    assert split_text(glued, model) == words.split()


@pytest.mark.parametrize(
    "word",
    [
        "Zorblaxian", "alot", "alligator", "covid19", "Theodora", "thewinner.com", "@theWinner", "#ToBe", "9:41",
        "U.S.A.", "a.m.", "3.5", "don't", "x", "...", "58122920", "and/or",
        "Zorblax'winner", "winner'Zorblax", "ain'tzo", "Istanbul", "a" * 200, "imgflip.com/i/thewinner",
    ],
)  # fmt: skip
def test_names_rare_words_addresses_and_numbers_stay_whole(word: str, model: WordModel) -> None:
    assert split_text(word, model) == [word]


def test_words_stay_whole_where_the_engine_saw_no_space(model: WordModel) -> None:
    assert split_text("tobe,", model, (0.0, 0.02, 0.0, 0.0)) == ["to", "be,"]
    assert split_text("tobe,", model, (0.0, 0.0, 0.0, 0.0)) == ["tobe,"]
    assert split_text("tobeorbe", model, (0.0, 0.02, 0.0, 0.0, 0.0, 0.02, 0.0)) == ["tobeorbe"], "not at all places"


def test_case_decides_some_splits(model: WordModel) -> None:
    assert split_text("itif", model) == ["itif"]
    assert split_text("itIf", model) == ["it", "If"]
    assert split_text("thestrasseandthewinner", model) == ["the", "strasse", "and", "the", "winner"]
    assert split_text("thestraßeandthewinner", model) == ["thestraßeandthewinner"], "longer in capitals"


def test_an_empty_catalog_knows_common_english() -> None:
    model = WordModel.of([])
    assert split_text("ANDTHEWINNERIS", model) == ["AND", "THE", "WINNER", "IS"]
    for word in ("manage", "season", "candle", "forget", "themes", "Kamala", "another"):
        assert split_text(word, model) == [word]


def test_pieces_share_the_box_and_line_of_their_word(model: WordModel) -> None:
    glued = Word("TOBEOR", 0.1, 0.2, 0.6, 0.05, 91.0, 4)
    outcome = restore_spaces(model)(Reading((glued, replace(glued, text="not", line=5))))
    assert isinstance(outcome, Keep)
    assert [word.text for word in outcome.record.words] == ["TO", "BE", "OR", "not"]
    assert [round(word.x, 6) for word in outcome.record.words] == [0.1, 0.3, 0.5, 0.1]
    assert {round(word.width, 6) for word in outcome.record.words[:3]} == {0.2}
    assert [(word.confidence, word.line) for word in outcome.record.words] == [(91.0, 4)] * 3 + [(91.0, 5)]
    reading = Reading((Word("winner", 0.1, 0.2, 0.6, 0.05, 91.0, 4),))
    assert restore_spaces(model)(reading) == Keep(reading)


def joined(text: str, model: WordModel) -> str:
    outcome = remove_spaces(model)(Reading(text_line(text, 0, y=0.1, height=0.1)))
    assert isinstance(outcome, Keep)
    return " ".join(word.text for word in outcome.record.words)


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ("THE W I N N E R IS", "THE WINNER IS"),
        ("O F TH E winner!", "OF THE winner!"),
        ("the winner TH INK s", "the winner THINK s"),
        ("we don t know", "we don't know"),
    ],
)
def test_words_cut_in_pieces_are_joined(cut: str, whole: str, model: WordModel) -> None:
    assert joined(cut, model) == whole


@pytest.mark.parametrize(
    "text",
    ["a part of it", "be fore", "may be so", "death bed", "main se ek ladka hai", "to be or not to be"],
)
def test_words_stay_apart(text: str, model: WordModel) -> None:
    assert joined(text, model) == text


def test_a_joined_word_spans_its_pieces(model: WordModel) -> None:
    line = text_line("O F the winner", 0, y=0.1, height=0.1)
    outcome = remove_spaces(model)(Reading(line))
    assert isinstance(outcome, Keep)
    first = outcome.record.words[0]
    assert first.x == line[0].x
    assert first.x + first.width == pytest.approx(line[1].x + line[1].width)
