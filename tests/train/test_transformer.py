"""The `transformer` kind: captions of a row do not see each other, the cache decodes what is scored, and it learns."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.configs.schema import Config
from memeloom.train.backend import keras
from memeloom.train.characters import END, Alphabet
from memeloom.train.contract import Captioner, Prompt, hyperparameters
from memeloom.train.corpus import UNKNOWN_TEMPLATE, Captions, open_dataset
from memeloom.train.decoding.choosers import by_threshold
from memeloom.train.decoding.sampling import write_captions
from memeloom.train.export import ExportFormat, export_model
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model
from memeloom.train.transformer.batches import PackedBatches, Prefixes, name_prefix
from memeloom.train.transformer.network import Transformer, build_network
from tests.train.decoding_checks import captions_of, check_character_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy = Callable[..., Config]
ALPHABET = Alphabet.of("abcde |")
NAMES = ("Abc", "Bad | Ace", "éd")
PREFIXES = Prefixes.of(NAMES, ALPHABET, "|")


def random_captions(count: int = 60) -> Captions:
    """Captions of the letters a to e, some longer than a row."""
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("abcde"), rng.integers(1, 50))) + END for _ in range(count)]
    return captions_of(ALPHABET, texts, rng.integers(0, len(NAMES), count).tolist(), NAMES)


def packing(made: Captions, **changes: Any) -> PackedBatches:
    return PackedBatches(
        made, PREFIXES, **{"rows": 3, "length": 64, "seed": 5, "known": range(len(NAMES)), "unknown": 0.0, **changes}
    )


def read(batch: Any) -> Iterator[tuple[str, str, int]]:
    """What is read of each caption of a batch, what has to be predicted, and the number of its template's vector."""
    (characters, captions, templates), labels, weights = batch
    for row, numbers in enumerate(captions):
        for caption in range(1, numbers.max() + 1):
            there = numbers == caption
            (template,) = set(templates[row][there].tolist())
            learned = there & (weights[row] > 0)
            yield ALPHABET.decode(characters[row][there]), ALPHABET.decode(labels[row][learned] + 1), template
    assert not weights[captions == 0].any()


def test_names_become_characters_of_captions() -> None:
    told = [ALPHABET.decode(name_prefix(name, ALPHABET, "|").tolist()) for name in (*NAMES, "", "ab " * 40)]
    assert told == ["abc\n", "bad ace\n", "d\n", "\n", "ab ab ab ab ab ab ab ab ab ab ab ab ab a\n"]


def test_a_caption_is_read_after_its_name_and_predicted_with_its_end() -> None:
    made = captions_of(ALPHABET, ["ab|c\n", "e\n", "aad\n"], [0, 2, 1], NAMES)
    found = sorted(read(packing(made, known=(0, 2)).batch(0)))
    assert found == [("abc\nab|c", "ab|c\n", 1), ("bad ace\naad", "aad\n", UNKNOWN_TEMPLATE), ("d\ne", "e\n", 3)]


def test_each_pass_holds_every_caption_once_in_a_new_order() -> None:
    made = random_captions()
    packed = packing(made, length=96)
    whole = Counter(made.texts(ALPHABET))
    passes = [
        [text for step in steps for _, text, _ in read(packed.batch(step))]
        for steps in (range(packed.steps), range(packed.steps, 2 * packed.steps))
    ]
    assert Counter(passes[0]) == Counter(passes[1]) == whole
    assert passes[0] != passes[1]
    assert packed.steps * packed.characters <= made.examples


def test_batches_depend_only_on_seed_and_step() -> None:
    made = random_captions()
    packed, again = packing(made, unknown=0.5), packing(made, unknown=0.5)
    steps = [keras.tree.flatten(packed.batch(step)) for step in range(3 * packed.steps)]
    for step in (2 * packed.steps + 1, 0, packed.steps):
        for one, other in zip(keras.tree.flatten(again.batch(step)), steps[step], strict=True):
            np.testing.assert_array_equal(one, other)
    assert packing(made, seed=6).batch(0)[1].tolist() != packed.batch(0)[1].tolist()


def test_captions_longer_than_a_row_are_truncated() -> None:
    made = random_captions()
    packed = packing(made, length=32)
    found = [text for step in range(packed.steps) for text, _, _ in read(packed.batch(step))]
    assert len(found) == len(made)
    assert max(map(len, found)) == 32


def test_a_share_of_templates_is_hidden_half_of_them_with_their_name() -> None:
    made = random_captions(2000)
    packed = packing(made, unknown=0.4, rows=64)
    for first in (0, packed.steps):
        captions = [each for step in range(first, first + packed.steps) for each in read(packed.batch(step))]
        told = Counter((template == UNKNOWN_TEMPLATE, text.startswith(END)) for text, _, template in captions)
        assert told[False, False] / len(made) == pytest.approx(0.6, abs=0.05)
        assert told[True, False] / len(made) == pytest.approx(0.2, abs=0.05)
        assert told[True, True] / len(made) == pytest.approx(0.2, abs=0.05)
        assert not told[False, True]


@pytest.fixture(scope="module")
def network() -> Any:
    """An untrained network whose parts all add something."""
    made = build_network(len(ALPHABET), len(NAMES), depth=2, dropout=0, seed=1)
    rng = np.random.default_rng(1)
    made.set_weights(
        [
            weights if weights.ndim == 1 else weights + rng.normal(0, 0.1, weights.shape)
            for weights in made.get_weights()
        ]
    )
    return made


def logits(network: Any, *inputs: NDArray[np.int32]) -> NDArray[np.float32]:
    return np.asarray(keras.ops.convert_to_numpy(network(list(inputs), training=False)))


def test_a_character_depends_only_on_itself_and_those_before_it_in_its_caption(network: Any) -> None:
    (characters, captions, templates), _, _ = packing(random_captions(), rows=2, length=128).batch(0)
    assert captions[0].max() > 1
    before = logits(network, characters, captions, templates)
    for at in (0, 3, int(np.flatnonzero(captions[0] == 2)[0]), int(np.flatnonzero(captions[0] == 2)[-1])):
        changed = characters.copy()
        changed[0, at] = changed[0, at] % 5 + 1
        after = logits(network, changed, captions, templates)
        other = np.abs(after - before).max(axis=-1) > 1e-6
        there = (captions[0] == captions[0, at]) & (np.arange(128) >= at)
        np.testing.assert_array_equal(other[0], there)
        assert not other[1].any()


def test_a_caption_has_the_same_logits_wherever_it_stands_in_a_row(network: Any) -> None:
    (characters, captions, templates), _, _ = packing(random_captions(), rows=2, length=128).batch(0)
    there = captions[0] == 2
    alone = logits(network, characters[:1, there], captions[:1, there], templates[:1, there])
    np.testing.assert_allclose(alone[0], logits(network, characters, captions, templates)[0, there], atol=1e-4)


def test_decoding_step_by_step_gives_the_logits_of_whole_texts(network: Any) -> None:
    layer, rng = network.get_layer("transformer"), np.random.default_rng(3)
    texts, templates = rng.integers(1, 7, (2, 12), np.int32), np.array([1, 3], np.int32)
    numbers = np.broadcast_to(templates[:, None], texts.shape)
    whole = keras.ops.log_softmax(logits(network, texts, np.ones_like(texts), numbers))
    # The first row has read four characters when the steps begin, the second seven.
    keys, values = layer.read(texts[:, :7], templates)
    keys, values = (keras.ops.pad(each, ((0, 0), (0, 0), (0, 9), (0, 0), (0, 0))) for each in (keys, values))
    for step in range(5):
        places = np.array([4, 7], np.int32) + np.int32(step)
        found, keys, values = layer.step(texts[np.arange(2), places], templates, places, keys, values)
        np.testing.assert_allclose(found, np.asarray(whole)[np.arange(2), places], atol=1e-4)


def test_learning_rate_follows_from_depth_unless_set(toy: Toy, tmp_path: Path) -> None:
    rates = [
        hyperparameters(toy(tmp_path, model="transformer", transformer__depth=depth).train).learning_rate
        for depth in (3, 12)
    ]
    assert rates == pytest.approx([0.003, 0.0015])
    given = toy(tmp_path, model="transformer", transformer__learning_rate=0.5)
    assert hyperparameters(given.train).learning_rate == 0.5


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_size_follows_from_depth(depth: int) -> None:
    network, units = build_network(70, 100, depth=depth, dropout=0, seed=1), 64 * depth
    blocks = depth * (12 * units**2 + 2 * units)
    assert network.count_params() == blocks + (71 + 101 + 70) * units + 2 * units


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy: Toy) -> Config:
    """Settings of a model that has learned the toy language; never change its folder."""
    config = toy(
        tmp_path_factory.mktemp("transformer"), model="transformer", steps=60, steps_per_epoch=30,
        transformer__learning_rate=0.01, transformer__unknown=0.2,
    )  # fmt: skip
    train_model(config)
    return config


@pytest.fixture(scope="module")
def model(trained: Config) -> Captioner:
    """The trained model, loaded from its folder."""
    return load_model(Path(trained.train.output))


def test_it_learns_the_toy_language(model: Captioner, trained: Config) -> None:
    check = open_dataset(Path(trained.train.dataset)).validation
    judged = model.score(check, 0, len(check))
    # Three letters in four have no choice.
    assert judged.right.sum() / judged.tokens.sum() > 0.75
    assert -judged.log_likelihood.sum() / judged.characters.sum() / np.log(2) < 0.5
    part = model.score(check, 7, 20)
    np.testing.assert_allclose(part.log_likelihood, judged.log_likelihood[7:20], rtol=1e-4)


def test_it_learns_a_few_captions_by_heart(toy: Toy, tmp_path: Path, write_dataset: Callable[..., Any]) -> None:
    rows = [("61533", ("cats", "all the")), ("8072285", ("wow", "such data", "much")), ("61533", ("bugs",))]
    write_dataset(tmp_path / "dataset", {"train": rows, "validation": rows})
    config = toy(
        tmp_path, model="transformer", steps=120, steps_per_epoch=120,
        transformer__unknown=0, transformer__learning_rate=0.01, transformer__schedule="cosine",
    )  # fmt: skip
    train_model(config)
    model = load_model(Path(config.train.output))
    train = open_dataset(Path(config.train.dataset)).train
    # Of two captions on a template, the first character has to be guessed.
    expected = [np.log(0.5) if template == "61533" else 0 for template, _ in rows]
    np.testing.assert_allclose(model.score(train, 0, 3).log_likelihood, expected, atol=0.2)
    doge = next(template for template in model.templates if template.name == "Doge")
    (written,) = write_captions(model, [Prompt(doge)], by_threshold(1), max_characters=80, rng=np.random.default_rng(1))
    assert written.texts == ("wow", "such data", "much")


def test_a_new_template_gets_the_words_of_its_name(model: Captioner) -> None:
    # Its vector is unknown; the names of the toy language's templates say which words fit.
    doge = next(template for template in model.templates if template.name == "Doge")
    prompts = [Prompt(doge.model_copy(update={"id": f"new {copy}"})) for copy in range(8)]
    rng = np.random.default_rng(1)
    written = write_captions(model, prompts, by_threshold(0.8), max_characters=80, rng=rng)
    assert all(each.texts[0] == "wow" for each in written)


def test_a_template_without_training_captions_counts_as_unknown(
    tmp_path: Path, toy: Toy, write_dataset: Callable[..., Any]
) -> None:
    learned = [("61533", ("cats", "all the")), ("61533", ("bugs", "so many"))] * 8
    held_out = [("one-does-not-simply", ("one does not simply", "walk"))]
    write_dataset(tmp_path / "dataset", {"train": learned, "validation": held_out, "test": held_out})
    config = toy(tmp_path, model="transformer", steps=4, steps_per_epoch=4)
    train_model(config)
    model = load_model(Path(config.train.output))
    held = model.templates[1]
    assert held.id == "one-does-not-simply"
    prompts = [Prompt(each) for each in (model.templates[0], held, held.model_copy(update={"id": "never"}))]
    of_learned, of_held, of_unknown = model.start_decoding(prompts).log_probs()
    np.testing.assert_array_equal(of_held, of_unknown)
    assert not np.array_equal(of_learned, of_held)
    check = open_dataset(Path(config.train.dataset)).validation
    named = model.score(check, 0, 1).log_likelihood
    # A row beyond the templates has no name.
    assert model.score(replace(check, templates=check.templates + 5), 0, 1).log_likelihood != named


def test_decoding_state_and_scores_agree(model: Captioner) -> None:
    check_character_model(model)


def test_a_text_may_outgrow_the_cache(model: Captioner) -> None:
    text, prompt = "memes|so many" * 11, Prompt(model.templates[0].model_copy(update={"boxes": 99}))
    state = model.start_decoding([prompt] * 2)
    for token in model.alphabet.encode(text).astype(np.int64) - 1:
        state.append(np.array([token, 0]))
    expected = model.start_decoding([replace(prompt, start=text)]).log_probs()
    np.testing.assert_allclose(state.log_probs()[:1], expected, atol=1e-3)


def test_the_layer_keeps_the_name_that_saved_models_know_it_by() -> None:
    # Both the registered name and the paths of weights come from the name of the class.
    assert keras.saving.get_registered_name(Transformer) == "memeloom>Transformer"


@pytest.mark.parametrize("format_name", ["saved-model", pytest.param("onnx", marks=pytest.mark.soak)])
def test_an_exported_model_gives_the_same_logits(
    model: Captioner, trained: Config, tmp_path: Path, format_name: ExportFormat
) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    export_model(Path(trained.train.output), tmp_path, format_name)
    for rows, length in ((1, 37), (3, 64)):
        asked = dict(zip(("characters", "captions", "templates"), of_toy(rows, length), strict=True))
        if format_name == "onnx":
            session = pytest.importorskip("onnxruntime").InferenceSession(
                tmp_path / "transformer.onnx", providers=["CPUExecutionProvider"]
            )
            (said,) = session.run(None, asked)
        else:
            served = tensorflow.saved_model.load(str(tmp_path / "transformer" / "1")).signatures["serving_default"]
            said = served(**{name: tensorflow.constant(values) for name, values in asked.items()})["output_0"]
        np.testing.assert_allclose(said, logits(model.networks["transformer"], *asked.values()), rtol=1e-3, atol=1e-3)


def of_toy(rows: int, length: int) -> list[NDArray[np.int32]]:
    """Characters, captions and templates, two captions a row."""
    rng = np.random.default_rng(rows)
    captions = np.broadcast_to((np.arange(length) > length // 2) + np.int32(1), (rows, length))
    return [rng.integers(1, 20, (rows, length), np.int32), captions, rng.integers(0, 4, (rows, length), np.int32)]
