"""The model of a catalog's words: what it counts, forgets, and how it travels."""

import pytest

from memeloom.ocr.words import WordModel, caption_words

CAPTIONS = ["ASK ZORBLAX ABOUT IT", "Zorblax didn’t ask", "nobody asked Zorblax", "ask zorblax", "once only"]


def surprisal(model: WordModel, word: str, after: str | None = None) -> float:
    row = model.row(word)
    assert row is not None
    return model.surprisal(row, model.row(after) if after else None)


def test_words_are_folded_and_keep_their_apostrophes() -> None:
    assert caption_words("DON’T panic, it's 2020!") == ["don't", "panic", "it's", "2020"]


def test_it_knows_words_seen_twice_and_common_english() -> None:
    model = WordModel.of(CAPTIONS)
    assert model.row("zorblax") is not None
    assert model.row("blorbs") is None
    assert WordModel.of(["blorbs alone"]).row("blorbs") is None
    assert WordModel.of([]).row("the") is not None


def test_frequent_words_surprise_less_and_words_after_their_usual_neighbour_less_still() -> None:
    model = WordModel.of(["ask zorblax"] * 50 + ["tell zorblax", "tell blorbs", "blorbs"])
    assert surprisal(model, "zorblax") < surprisal(model, "blorbs")
    assert surprisal(model, "zorblax", after="ask") < surprisal(model, "zorblax")
    assert surprisal(model, "blorbs", after="ask") > surprisal(model, "blorbs")


def test_what_was_often_new_makes_the_unknown_less_surprising() -> None:
    settled = WordModel.of(["the same words again"] * 30_000)
    varied = WordModel.of(f"word{number} w{number}" for number in range(30_000))
    assert varied.unseen_surprisal < settled.unseen_surprisal


def test_it_comes_back_from_its_bytes_which_are_always_the_same() -> None:
    content = WordModel.of(CAPTIONS * 3).to_bytes()
    assert content == WordModel.of(CAPTIONS * 3).to_bytes()
    again, model = WordModel.from_bytes(content), WordModel.of(CAPTIONS * 3)
    assert again.to_bytes() == content
    assert again.unseen_surprisal == model.unseen_surprisal
    assert surprisal(again, "zorblax", after="ask") == surprisal(model, "zorblax", after="ask")


@pytest.mark.parametrize("spoil", [lambda content: b"", lambda content: content[:-9], lambda content: b"x" + content])
def test_bytes_of_something_else_are_refused(spoil) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="not a word model"):
        WordModel.from_bytes(spoil(WordModel.of(CAPTIONS).to_bytes()))


def test_it_stays_small_and_keeps_the_frequent_words() -> None:
    captions = [f"zorblax meets n{number} and n{number}" for number in range(5000)]
    model = WordModel.of(captions, max_words=50, max_pairs=50)
    assert len(model) == 50
    assert model.row("zorblax") is not None
    assert surprisal(model, "meets", after="zorblax") < surprisal(model, "meets")
