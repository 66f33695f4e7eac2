"""The word model: counts, bounds, pickling."""

import pickle

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
    assert WordModel.of([]).row("congresswoman") is not None


def test_surprisal_falls_with_frequency_and_with_a_usual_predecessor() -> None:
    model = WordModel.of(["ask zorblax"] * 50 + ["tell zorblax", "tell blorbs", "blorbs"])
    assert surprisal(model, "zorblax") < surprisal(model, "blorbs")
    assert surprisal(model, "zorblax", after="ask") < surprisal(model, "zorblax")
    assert surprisal(model, "blorbs", after="ask") > surprisal(model, "blorbs")


def test_many_new_words_lower_the_surprisal_of_unknown_ones() -> None:
    settled = WordModel.of(["the same words again"] * 30_000)
    varied = WordModel.of(f"word{number} w{number}" for number in range(30_000))
    assert varied.unseen_surprisal < settled.unseen_surprisal


def test_a_pickled_model_is_the_same() -> None:
    model = WordModel.of(CAPTIONS * 3)
    again = pickle.loads(pickle.dumps(model))
    assert again.unseen_surprisal == model.unseen_surprisal
    assert surprisal(again, "zorblax", after="ask") == surprisal(model, "zorblax", after="ask")


def test_the_model_is_bounded_and_holds_the_frequent_words() -> None:
    captions = [f"zorblax meets n{number} and n{number}" for number in range(5000)]
    model = WordModel.of(captions, max_words=500, max_pairs=50)
    assert len(model) == 500
    assert model.row("zorblax") is not None
    assert surprisal(model, "meets", after="zorblax") < surprisal(model, "meets")
