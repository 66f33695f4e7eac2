"""The `show-and-tell` kind: its words, its decoder and its batches."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.show_and_tell.batches import Rows, Texts
from memeloom.train.show_and_tell.decoding import PictureState
from memeloom.train.show_and_tell.model import decoder_steps
from memeloom.train.show_and_tell.network import Decoder, build_decoder, fit_statistics
from memeloom.train.show_and_tell.words import END, UNKNOWN, Words, spacing_nats, unusual_spaces

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
SIZE = 12


@pytest.fixture(scope="module")
def words() -> Words:
    texts = ["one does not simply|walk into mordor|", "wow|such doge, much wow!|", "one|does not|"]
    return Words.of_texts(texts, 100, "|")


@pytest.fixture(scope="module")
def decoder(words: Words) -> Decoder:
    made = build_decoder(len(words), size=SIZE, embedding=8, units=16, dropout=0.5, seed=1)
    fit_statistics(made.network, vectors(20) * 3 + 5)
    return made


def vectors(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((count, SIZE), np.float32)


def log_probabilities(logits: Any) -> NDArray[np.float32]:
    found = np.array(keras.ops.convert_to_numpy(logits), np.float32)
    found[..., UNKNOWN] = -np.inf
    found -= np.log(np.exp(found).sum(axis=-1, keepdims=True))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "one does not simply|walk into mordor|",
        'she said "hello, you" and left|ok...|',
        "don't *sigh* me: well-known and/or (maybe) #1 for $5!?|",
        "|only below|",
        '"open|"again"|',
    ],
)
def test_words_are_decoded_to_the_same_text(text: str) -> None:
    words = Words.of_texts([text], 100, "|")
    assert UNKNOWN not in words.encode(text)
    assert words.decode(words.encode(text)).strip() == text
    assert unusual_spaces(text, "|")[0] == 0


def test_decoded_words_continue_a_start_text() -> None:
    words = Words.of_texts(["one does not , simply|walk|"], 100, "|")
    rest = words.encode(" simply|walk|")
    assert "one does not" + words.decode(rest) == "one does not simply|walk|"
    assert "one does not" + words.decode(words.encode(", simply")) == "one does not, simply"


def test_unusual_spaces_are_counted_and_coded() -> None:
    assert unusual_spaces("so , this|is it ...|", "|") == (2, 9)
    # A code: all ways to space three places have probability 1 together.
    ways = [spacing_nats(unusual, 3, 0.2) for unusual in (0, 1, 1, 1, 2, 2, 2, 3)]
    assert math.fsum(math.exp(-nats) for nats in ways) == pytest.approx(1)


def test_the_most_frequent_words_and_the_separator_are_known() -> None:
    words = Words.of([("the", 9), ("a", 8), ("|", 1), ("dog", 1)], 3, "|")
    assert words.words == ("|", "the", "a")
    assert words.encode("the dog|") == [3, UNKNOWN, 2]
    assert words.unknown_letters("the dog|") == [3]


def test_stepwise_decoding_equals_the_output_for_whole_captions(decoder: Decoder, words: Words) -> None:
    """Also when rows are reordered between steps."""
    shown = vectors(3)
    state = PictureState(decoder_steps(decoder.network), shown, words.start, [[], [], []])
    written = np.array([[3, 4, 2], [5, 5, 5], [UNKNOWN, 2, 3]])
    order = np.array([0, 1, 2])
    for place in range(3):
        read = np.concatenate([np.full((3, 1), words.start), written[order, :place]], axis=1).astype(np.int32)
        expected = log_probabilities(decoder.training_model([shown[order], read]))[:, -1]
        np.testing.assert_allclose(state.log_probs(), expected, atol=1e-4)
        state.append(written[order, place])
        moved = np.array([2, 0, 2])
        state.select(moved)
        order = order[moved]


def test_start_texts_may_differ_in_length(decoder: Decoder, words: Words) -> None:
    begun = [[3, 4, 2], [], [5]]
    state = PictureState(decoder_steps(decoder.network), vectors(3), words.start, begun)
    for row, read in enumerate(begun):
        one = [vectors(3)[row : row + 1], np.array([[words.start, *read]], np.int32)]
        np.testing.assert_allclose(
            state.log_probs()[row], log_probabilities(decoder.training_model(one))[0, -1], atol=1e-4
        )
    assert (state.log_probs()[:, UNKNOWN] == -np.inf).all()


def test_the_exported_decoder_continues_from_a_state(decoder: Decoder, words: Words) -> None:
    """As a server calls it."""
    shown, read = vectors(2), np.array([[words.start, 3, 4], [words.start, 5, 2]], np.int32)
    whole = keras.ops.convert_to_numpy(decoder.training_model([shown, read]))
    state = np.zeros((2, 16), np.float32)
    for place in range(3):
        logits, state = map(np.asarray, decoder.network([shown, read[:, place : place + 1], state]))
        np.testing.assert_allclose(logits[:, 0], whole[:, place], atol=1e-5)


def test_batches_hold_whole_captions_in_turn(words: Words) -> None:
    texts = Texts.of(["one|", "does not simply walk|into|", "wow|"], words)
    rows = Rows(texts, vectors(2).astype(np.float16), np.array([0, 1, 1], np.int32), words.start, 3, 4, 7)
    (shown, read), following, there = rows.batch(0, 0.0)
    assert read.shape == following.shape == there.shape == (3, 4)
    assert sorted(there.sum(axis=1)) == [3, 3, 4]
    assert (read[:, 0] == words.start).all()
    np.testing.assert_array_equal(read[:, 1:], following[:, :-1])
    one = int(np.flatnonzero(following[:, 0] == words.encode("one")[0])[0])
    assert following[one].tolist() == [*words.encode("one|"), END, END]
    np.testing.assert_array_equal(shown[one], rows.vectors[0].astype(np.float32))
    (same, _), *_ = rows.batch(0, 0.0)
    np.testing.assert_array_equal(shown, same)


def test_noise_is_a_share_of_the_standard_deviation_of_each_vector(words: Words) -> None:
    texts = Texts.of(["wow|"] * 64, words)
    loud = np.random.default_rng(1).standard_normal((64, 2048)) * np.arange(1, 65)[:, None] + 3
    rows = Rows(texts, loud.astype(np.float16), np.arange(64, dtype=np.int32), words.start, 64, 4, 7)
    (plain, _), *_ = rows.batch(0, 0.0)
    (noisy, _), *_ = rows.batch(0, 0.2)
    (again, _), *_ = rows.batch(0, 0.2)
    np.testing.assert_array_equal(noisy, again)
    np.testing.assert_allclose((noisy - plain).std(axis=1), 0.2 * plain.std(axis=1), rtol=0.1)
    assert abs(np.corrcoef((noisy - plain)[0], (rows.batch(1, 0.2)[0][0] - rows.batch(1, 0.0)[0][0])[0])[0, 1]) < 0.1
