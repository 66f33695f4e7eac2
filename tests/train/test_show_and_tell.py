"""The `show-and-tell` kind: its words, its decoder, and what it learns from pictures."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.configs.errors import ConfigError
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.reader import resize_square
from memeloom.train.backend import keras
from memeloom.train.characters import Alphabet
from memeloom.train.contract import ALL_BOXES
from memeloom.train.corpus import Captions, open_dataset
from memeloom.train.export import export_model
from memeloom.train.fit import train_model
from memeloom.train.model_folder import NotAModel, load_model
from memeloom.train.show_and_tell.batches import Rows, Texts
from memeloom.train.show_and_tell.model import PictureState, ShowAndTellCaptioner, decoder_steps
from memeloom.train.show_and_tell.network import Decoder, build_decoder, fit_statistics
from memeloom.train.show_and_tell.words import END, UNKNOWN, Words, spacing_nats, unusual_spaces
from tests.train.picture_dataset import (
    WORDS,
    captions,
    captions_for_file,
    check_likelihood_by_pictures,
    check_words_of_pictures,
    drawn,
    png,
    with_pictures,
)

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


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, write_dataset: Callable[..., Any], small_encoder: None,
) -> Config:  # fmt: skip
    """Settings of a training that has learned which words go with which picture; never change its folder."""
    folder = tmp_path_factory.mktemp("pictures")
    rows = {"train": captions(240, 1), "validation": captions(60, 2)}
    with_pictures(folder / "dataset", write_dataset(folder / "dataset", rows))
    own = {
        "noise": 0.05, "embedding": 32, "units": 32, "dropout": 0, "batch": 32, "learning_rate": 0.01, "longest": 8,
    }  # fmt: skip
    small = {
        "model": "show-and-tell", "dataset": folder / "dataset", "output": folder / "model",
        "pictures.weights": "none", "pictures.side": 75, "pictures.vectors": folder / "vectors",
        "steps": 90, "steps_per_epoch": 90, "validation_batches": 2,
        **{f"show_and_tell.{key}": value for key, value in own.items()},
    }  # fmt: skip
    config = load_config(None, [f"train.{key}={value}" for key, value in small.items()], {})
    train_model(config, Silent())
    return config


@pytest.fixture(scope="module")
def model(trained: Config) -> ShowAndTellCaptioner:
    loaded = load_model(Path(trained.train.output))
    assert isinstance(loaded, ShowAndTellCaptioner)
    return loaded


def vectors(count: int, seed: int = 1, size: int = SIZE) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, size), np.float32)


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


def test_it_learns_the_words_that_go_with_a_picture(model: ShowAndTellCaptioner) -> None:
    check_words_of_pictures(model)


def test_the_right_picture_makes_captions_likelier(model: ShowAndTellCaptioner, trained: Config) -> None:
    check = open_dataset(Path(trained.train.dataset)).validation
    right = check_likelihood_by_pictures(model, check)
    assert right.characters.sum() == check.examples
    bits = -right.log_likelihood.sum() / right.characters.sum() / math.log(2)
    # The language leaves about log2(2 * 2), log2(3) and log2(2 * 2) bits a caption of some 13 characters open.
    assert bits < 0.35


def test_unknown_words_cost_bits_for_each_letter(model: ShowAndTellCaptioner) -> None:
    """So every caption has a cost, and longer unknown words cost more."""
    alphabet = model.alphabet

    def nats(text: str) -> float:
        one = captions_of(alphabet, text)
        return -float(model.score(one, 0, 1).log_likelihood[0])

    letter = math.log(len(alphabet) + 1)
    assert nats("greed|grass|") - nats("gree|grass|") == pytest.approx(letter, rel=1e-4)
    assert nats("gree|grass|") > nats("green|grass|") + 4 * letter


def captions_of(alphabet: Alphabet, text: str) -> Captions:
    numbers = alphabet.encode(text)
    return Captions(
        numbers,
        np.zeros(len(numbers), np.uint8),
        np.array([0, len(numbers)]),
        np.zeros(1, np.int32),
        alphabet.prefixes(["x"], 1),
    )


def test_separator_and_end_close_boxes(model: ShowAndTellCaptioner) -> None:
    assert model.boxes_closed[END] == ALL_BOXES
    assert model.boxes_closed[model.words.encode("|")[0]] == 1
    assert model.boxes_closed.sum() == ALL_BOXES + 1


def test_the_model_folder_holds_encoder_and_decoder(model: ShowAndTellCaptioner, trained: Config) -> None:
    folder = Path(trained.train.output)
    decoder = keras.saving.load_model(folder / "decoder.keras", compile=False)
    vectors = np.load(folder / "pictures.npy", allow_pickle=False)
    assert json.loads((folder / "model.json").read_text())["networks"] == ["encoder", "decoder"]
    seen = model.template_pictures.encoder.vectors([drawn(template.id) for template in model.templates])
    np.testing.assert_allclose(seen, vectors, rtol=5e-3, atol=5e-3)
    start = np.full((len(vectors), 1), model.words.start, np.int32)
    logits, _ = decoder([vectors, start, np.zeros((len(vectors), 32), np.float32)])
    assert logits.shape == (3, 1, len(model.words))


def test_both_networks_are_exported(model: ShowAndTellCaptioner, trained: Config, tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    export_model(Path(trained.train.output), tmp_path / "served", "saved-model", Silent())
    encoder, decoder = (
        tensorflow.saved_model.load(str(tmp_path / "served" / name / "1")).signatures["serving_default"]
        for name in ("encoder", "decoder")
    )
    pictures = [resize_square(drawn(template.id), 75) for template in model.templates]
    (seen,) = encoder(pixels=tensorflow.constant(np.stack(pictures))).values()
    np.testing.assert_allclose(seen, model.template_pictures.encoder.vectors(pictures), rtol=1e-3, atol=1e-3)
    start = np.full((3, 1), model.words.start, np.int32)
    given = [np.asarray(seen), start, np.zeros((3, 32), np.float32)]
    names = [tensor.name for tensor in model.decoder.inputs]
    said = decoder(**{name: tensorflow.constant(each) for name, each in zip(names, given, strict=True)})
    for place, expected in enumerate(model.decoder(given, training=False)):
        np.testing.assert_allclose(said[f"output_{place}"], expected, rtol=1e-4, atol=1e-4)


def test_onnx_runtime_runs_the_decoder(model: ShowAndTellCaptioner, trained: Config, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export_model(Path(trained.train.output), tmp_path / "served", "onnx", Silent())
    session = onnxruntime.InferenceSession(tmp_path / "served" / "decoder.onnx", providers=["CPUExecutionProvider"])
    given = [
        vectors(2, size=model.decoder.inputs[0].shape[-1]),
        np.full((2, 1), model.words.start, np.int32),
        np.zeros((2, 32), np.float32),
    ]
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, dict(zip(names, given, strict=True)))
    for one, expected in zip(found, model.decoder(given, training=False), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)


def test_a_picture_in_a_file_is_captioned(trained: Config, tmp_path: Path) -> None:
    path = tmp_path / "frog.png"
    path.write_bytes(png(drawn("one-does-not-simply")))
    made = captions_for_file(trained, path)
    assert [caption.template_name for caption in made] == ["frog.png"] * 2
    assert all(caption.boxes[0] == "green" and caption.boxes[1] in WORDS["one-does-not-simply"][1] for caption in made)
    path.write_bytes(b"no picture")
    with pytest.raises(ConfigError, match=r"generate\.image: .*frog\.png: not an image"):
        captions_for_file(trained, path)


def test_damaged_vectors_are_refused(trained: Config, tmp_path: Path) -> None:
    folder = Path(trained.train.output)
    for path in folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "pictures.npy").unlink()
    (tmp_path / "pictures.npy").write_bytes((folder / "pictures.npy").read_bytes()[:-1])
    with pytest.raises(NotAModel, match=r"pictures\.npy: damaged"):
        load_model(tmp_path)
