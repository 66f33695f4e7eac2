"""Captions are encoded as tokens and back, apart from markers, and packed into rows."""

import numpy as np
import pytest

from memeloom.train.characters import Alphabet
from memeloom.train.gpt2.packing import Rows, cut_pieces, pack, windows
from memeloom.train.gpt2.tokens import BEGIN, Tokens, learn_tokens
from tests.train.decoding_checks import captions_of

TEXTS = ["one does not simply|walk into mordor|", "wow|such data|very 2 loss|", "the the the|", "||"]
ALPHABET = Alphabet.of(sorted(set("".join(TEXTS))))
NAMES = ("One Does Not Simply", "Doge")


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens(*learn_tokens([*TEXTS, *TEXTS], 300), ALPHABET, "|")


def test_a_new_vocabulary_merges_frequent_pairs(tokens: Tokens) -> None:
    assert learn_tokens(iter(TEXTS), 280) == learn_tokens(iter(TEXTS), 280)
    assert len(tokens) <= 300
    assert tokens.encode(["the the"]) == [[tokens.vocabulary.index("the"), tokens.vocabulary.index("Ġthe")]]


def test_each_box_begins_with_its_own_marker_and_ends_with_the_same_token(tokens: Tokens) -> None:
    assert [tokens.text(said) for _, said in tokens.streams(TEXTS)] == TEXTS
    ((read, said),) = tokens.streams(["wow|wow|wow|"])
    wow = tokens.encode(["wow"])[0]
    markers = tokens.marker(np.arange(3)).tolist()
    assert len(set(markers)) == 3
    assert read == [token for marker in markers for token in (marker, *wow)]
    assert said == [*wow, tokens.close] * 3
    assert len(set(tokens.marker(np.array([27, 28, 99])).tolist())) == 1, "later boxes share the last marker"


def test_only_tokens_of_caption_letters_are_writable(tokens: Tokens) -> None:
    may = {token for token, allowed in zip(tokens.vocabulary, tokens.writable, strict=True) if allowed}
    said = {token for text in TEXTS for token in tokens.streams([text])[0][1]}
    assert {tokens.vocabulary[token] for token in said} <= may
    never = {tokens.vocabulary[int(marker)] for marker in tokens.marker(np.arange(28))} | {BEGIN, "|", "X", "z", "Ã"}
    assert not never & may


def test_letters_of_two_bytes_are_writable() -> None:
    alphabet = Alphabet.of(["é", "a", "|"])
    spoken = Tokens(*learn_tokens(["a|"], 300), alphabet, "|")
    ((_, said),) = spoken.streams(["aéa|"])
    assert spoken.writable[said].all()
    assert spoken.text(said) == "aéa|"
    assert spoken.text(said[1:2]) == ""


def test_text_that_looks_like_a_marker_is_not_encoded_as_one(tokens: Tokens) -> None:
    (encoded,) = tokens.encode([f"{BEGIN}1"])
    assert tokens.begin not in encoded
    assert not np.isin(encoded, tokens.marker(np.arange(28))).any()


def test_texts_read_by_ocr_are_normalized_like_captions(tokens: Tokens) -> None:
    read = "ONE\nDOESNOT \t SIMPLY |  WOW “SUCH”… ＤＡＴＡ €｜wow|"
    assert tokens.normalize(read) == "one doesnot simply|wow such data wow|"
    assert tokens.normalize("") == ""


def test_invalid_vocabularies_and_merges_are_refused(tokens: Tokens) -> None:
    with pytest.raises(ValueError, match="lacks the token 'Ċ'"):
        Tokens([token if token != "Ċ" else "no" for token in tokens.vocabulary], tokens.merges, ALPHABET, "|")
    for merge in ("q q", "a", "a b c"):
        with pytest.raises(ValueError, match=f"the merge '{merge}' is not of tokens"):
            Tokens(tokens.vocabulary, [*tokens.merges, merge], ALPHABET, "|")


def test_windows_overlap_by_half_and_score_every_token_once() -> None:
    assert list(windows(4, 6)) == [(0, 0, 4)]
    assert list(windows(13, 6)) == [(0, 0, 6), (3, 6, 9), (6, 9, 12), (9, 12, 13)]


def test_rows_hold_whole_captions_and_only_captions_have_labels(tokens: Tokens) -> None:
    heads = [tokens.head(name, 16) for name in (*NAMES, None)]
    texts, templates = TEXTS * 6, [0, 1, 1, 5] * 6
    rows = Rows(cut_pieces(tokens, heads, captions_of(ALPHABET, texts, templates), 0, 24, window=48), 48, seed=3)
    inputs, labels, owners = rows.owned(np.arange(len(rows)))
    for caption, (text, template) in enumerate(zip(texts, templates, strict=True)):
        ((read, said),) = tokens.streams([text])
        at = np.argwhere(owners == caption)
        assert labels[tuple(at.T)].tolist() == said
        row, first = at[0].tolist()
        head = heads[min(template, 2)]
        begin = first - len(head)
        assert inputs[row, 0, begin : begin + len(head) + len(read)].tolist() == [*head, *read]
        assert (inputs[row, 1, begin : begin + len(head) + len(read)] == begin).all()
    beyond = np.arange(len(rows) + 1)
    assert (rows.batch(beyond)[2] == [*(owners >= 0), np.zeros(48)]).all()


def test_a_caption_longer_than_the_window_is_learned_in_pieces(tokens: Tokens) -> None:
    long = "walk into mordor such data " * 9 + "|"
    head = tokens.head("Doge", 16)
    pieces = cut_pieces(tokens, [head], captions_of(ALPHABET, [long]), 0, 1, window=32)
    assert (np.diff(pieces.starts) <= 32).all()
    assert len(pieces.captions) > 2
    assert tokens.text(pieces.labels[pieces.labels >= 0].tolist()) == long
    assert all(pieces.inputs[start : start + len(head)].tolist() == head for start in pieces.starts[:-1])


def test_some_captions_are_learned_without_the_template_name(tokens: Tokens) -> None:
    heads = [tokens.head("Doge", 16), tokens.head(None, 16)]
    pieces = cut_pieces(tokens, heads, captions_of(ALPHABET, ["wow|"] * 9), 0, 9, window=48, nameless=4)
    nameless = [pieces.inputs[at + 1] != heads[0][1] for at in pieces.starts[:-1]]
    assert np.flatnonzero(nameless).tolist() == [0, 4, 8]


def test_packing_places_every_piece_and_fills_rows_to_95_percent() -> None:
    lengths = np.random.default_rng(5).integers(5, 40, 2000)
    order, firsts = pack(lengths, 128, seed=1)
    assert sorted(order.tolist()) == list(range(2000))
    filled = np.add.reduceat(lengths[order], firsts[:-1])
    assert filled.max() <= 128
    assert filled.sum() > 0.95 * 128 * len(filled)
    assert pack(lengths, 128, seed=2)[0].tolist() != order.tolist()
