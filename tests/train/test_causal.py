"""The `causal` kind: contexts are equal in training and decoding, never look ahead, and the model learns."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.configs.progress import SILENT
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.backend import keras
from memeloom.train.causal.contexts import NULL_ROW, ContextSpec, ContextState, context_rows, read_all, table_rows
from memeloom.train.causal.network import Core, Sight, Table, join
from memeloom.train.causal.packing import PackedBatches
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import Captions, open_dataset
from memeloom.train.decoding.sampling import by_threshold, write_captions
from memeloom.train.fit import train_model
from memeloom.train.generate import generate_captions
from memeloom.train.model_folder import load_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy = Callable[..., Config]
LETTERS = ContextSpec(Alphabet.of("abcde |"), "|", 12)


def captions(count: int = 60, seed: int = 1) -> Captions:
    """Random captions; some are empty boxes, some are longer than a row of the tests."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 50, count)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Captions(
        characters=rng.integers(1, 8, starts[-1]).astype(np.uint16),
        boxes=np.zeros(starts[-1], np.uint8),
        starts=starts,
        templates=rng.integers(0, 5, count).astype(np.int32),
        prefixes=np.zeros((5, 1, 18), np.uint16),
    )


def rows_at_once(made: Captions) -> NDArray[np.int32]:
    reading = read_all(
        made.characters.astype(np.int64), made.starts[:-1], made.templates.astype(np.int64) + 1, LETTERS.spaces,
        LETTERS.separator,
    )  # fmt: skip
    return context_rows(reading, LETTERS.bits, len(LETTERS.alphabet))


def test_contexts_of_whole_captions_equal_those_read_character_by_character() -> None:
    made = captions()
    expected = rows_at_once(made)
    for number, (first, last) in enumerate(zip(made.starts[:-1], made.starts[1:], strict=True)):
        reading = ContextState.begin(made.templates[number : number + 1].astype(np.int64) + 1)
        for at in range(first, last):
            found = context_rows(reading, LETTERS.bits, len(LETTERS.alphabet))
            np.testing.assert_array_equal(found[0], expected[at])
            reading = reading.read(made.characters[at : at + 1].astype(np.int64), LETTERS.spaces, LETTERS.separator)
    assert expected.min() > NULL_ROW
    assert expected.max() < table_rows(LETTERS.bits, len(LETTERS.alphabet))


def test_contexts_depend_only_on_earlier_characters_of_the_same_caption() -> None:
    made = captions()
    before = rows_at_once(made)
    for number, at in ((0, 0), (3, int(made.starts[3])), (7, int(made.starts[8]) - 1)):
        changed = made.characters.copy()
        changed[at] = changed[at] % 7 + 1
        after = rows_at_once(Captions(changed, made.boxes, made.starts, made.templates, made.prefixes))
        other = np.flatnonzero((before != after).any(axis=1))
        assert ((other > at) & (other < made.starts[number + 1])).all()


def packing(made: Captions, **changes: Any) -> PackedBatches:
    return PackedBatches(
        made, LETTERS, **{"rows": 3, "length": 64, "seed": 5, "known": range(5), "unknown": 0.0, **changes}
    )


def texts(batch: Any) -> Counter[tuple[int, ...]]:
    """The captions in a batch."""
    (_, begins), labels, weights = batch
    found: Counter[tuple[int, ...]] = Counter()
    for row in range(len(labels)):
        there = weights[row] > 0
        assert (np.diff(there.astype(int)) <= 0).all()
        parts = np.split(labels[row][there] + 1, np.flatnonzero(begins[row][there])[1:])
        found.update(tuple(part.tolist()) for part in parts if len(part))
    return found


def test_each_pass_holds_every_caption_once_in_a_new_order() -> None:
    made = captions()
    whole = Counter(
        tuple(made.characters[first:last].tolist())
        for first, last in zip(made.starts[:-1], made.starts[1:], strict=True)
    )
    packed = packing(made)
    first, second = (
        [packed.batch(step) for step in range(number * packed.steps, (number + 1) * packed.steps)] for number in (0, 1)
    )
    assert sum(map(texts, first), Counter()) == sum(map(texts, second), Counter()) == whole
    assert packed.steps * packed.characters <= made.examples
    assert second[0][1].tolist() != first[0][1].tolist()


def test_batches_depend_only_on_seed_and_step() -> None:
    made = captions()
    packed, again = packing(made, unknown=0.5), packing(made, unknown=0.5)
    steps = [keras.tree.flatten(packed.batch(step)) for step in range(3 * packed.steps)]
    for step in (2 * packed.steps + 1, 0, packed.steps):
        for one, other in zip(keras.tree.flatten(again.batch(step)), steps[step], strict=True):
            np.testing.assert_array_equal(one, other)
    assert packing(made, seed=6).batch(0)[1].tolist() != packed.batch(0)[1].tolist()


def test_captions_longer_than_a_row_are_truncated() -> None:
    made = captions()
    packed = packing(made, length=32)
    found = sum((texts(packed.batch(step)) for step in range(packed.steps)), Counter())
    assert sum(found.values()) == len(made)
    assert max(map(len, found)) == 32


def test_rare_contexts_are_left_out_from_the_second_pass_on() -> None:
    made = captions()
    packed = packing(made)
    counts = np.bincount(rows_at_once(made).ravel())
    assert counts.max() > 100
    (contexts, _), _, weights = packed.batch(0)
    assert (contexts[weights > 0] > NULL_ROW).all()
    kept = Counter[int]()
    for step in range(packed.steps, 2 * packed.steps):
        (contexts, _), _, weights = packed.batch(step)
        kept.update(contexts[weights > 0].ravel().tolist())
        np.testing.assert_array_equal(packed.batch(step)[0][0], contexts)
    assert kept.pop(NULL_ROW) > 0
    assert counts[list(kept)].min() > 8, "no more than 8 times in the captions"
    often = np.flatnonzero(counts > 100)
    share = sum(kept[int(row)] for row in often) / counts[often].sum()
    assert share == pytest.approx(1 - 8 * len(often) / counts[often].sum(), abs=0.02)


def test_contexts_of_unknown_templates_are_counted_as_often_as_read() -> None:
    made = captions(200)
    packed, nameless = packing(made, unknown=0.5), packing(made, known=())
    read = [nameless.batch(step)[0][0] for step in range(nameless.steps)]
    unknown = np.setdiff1d(np.concatenate([rows.ravel() for rows in read]), rows_at_once(made))
    kept = Counter[int]()
    for step in range(packed.steps, 2 * packed.steps):
        kept.update(packed.batch(step)[0][0].ravel().tolist())
    assert sum(kept[int(row)] for row in unknown) > 100


@pytest.mark.parametrize(("layers", "length"), [(0, 96), (2, 96), (1, 272)])
def test_stepwise_output_equals_the_output_for_whole_captions(layers: int, length: int) -> None:
    characters = len(LETTERS.alphabet)
    core = Core(characters, units=8, layers=layers, hidden=12, dropout=0, blank=0, seed=1, name="core")
    networks = join(Table(table_rows(12, characters), 4, living=characters + 1, rate=1, seed=1, name="table"), core)
    networks.table.vectors.assign(np.random.default_rng(1).normal(size=networks.table.vectors.shape))
    (contexts, begins), _, weights = packing(captions(), rows=2, length=length).batch(0)
    whole = keras.ops.log_softmax(networks.network([contexts, begins]))
    uneven = keras.ops.log_softmax(networks.network([contexts[:, :-3], begins[:, :-3]]))
    np.testing.assert_allclose(uneven, np.asarray(whole)[:, :-3], atol=1e-4)
    state = np.zeros((2, layers, 8), np.float32)
    for at in range(int(weights.sum(axis=1).min())):
        state = np.where(begins[:, at, None, None] > 0, 0, state)
        found, state = (np.asarray(part) for part in networks.step([contexts[:, at], state]))
        np.testing.assert_allclose(found, np.asarray(whole)[:, at], atol=1e-4)


@pytest.fixture(scope="module")
def model(trained_causal: Config) -> Captioner:
    """The trained model, loaded from its folder."""
    return load_model(Path(trained_causal.train.output))


def test_training_and_decoding_with_xla_give_what_they_give_without(
    toy: Toy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sizes = {"model": "causal", "steps": 2, "steps_per_epoch": 2, "validation_batches": 1, "causal__blank": 0}
    plain, compiled = (toy(tmp_path, output=str(tmp_path / name), **sizes) for name in ("plain", "compiled"))
    train_model(plain)
    request.getfixturevalue("xla")
    train_model(compiled)
    (row, other) = (
        json.loads((Path(config.train.output) / "history.jsonl").read_text()) for config in (plain, compiled)
    )
    for name in ("loss", "validation_loss"):
        assert row[name] == pytest.approx(other[name], rel=1e-4)
    assert row["samples"] == other["samples"]


def test_it_learns_the_toy_language(model: Captioner, trained_causal: Config) -> None:
    check = open_dataset(Path(trained_causal.train.dataset)).validation
    judged = model.score(check, 0, len(check))
    # Three letters in four have no choice.
    assert judged.right.sum() / judged.tokens.sum() > 0.75
    assert -judged.log_likelihood.sum() / judged.characters.sum() / np.log(2) < 1


def test_a_template_without_training_captions_counts_as_unknown(
    tmp_path: Path, toy: Toy, write_dataset: Callable[..., Any]
) -> None:
    learned = [("61533", ("cats", "all the")), ("61533", ("bugs", "so many"))] * 8
    held_out = [("one-does-not-simply", ("one does not simply", "walk"))]
    write_dataset(tmp_path / "dataset", {"train": learned, "validation": held_out, "test": held_out})
    config = toy(tmp_path, model="causal", steps=4, steps_per_epoch=4)
    train_model(config, SILENT)
    model = load_model(Path(config.train.output))
    held = model.templates[1]
    assert held.id == "one-does-not-simply"
    unknown = held.model_copy(update={"id": "never"})
    known, unseen, strange = model.start_decoding(
        [Prompt(each) for each in (model.templates[0], held, unknown)]
    ).log_probs()
    np.testing.assert_array_equal(unseen, strange)
    assert not np.array_equal(known, unseen)
    check = open_dataset(Path(config.train.dataset)).validation
    far = replace(check, templates=check.templates + 5)
    np.testing.assert_allclose(model.score(check, 0, 1).log_likelihood, model.score(far, 0, 1).log_likelihood)


def test_the_null_row_of_the_table_stays_zero(model: Captioner) -> None:
    vectors = np.asarray(model.networks["causal"].get_layer("table").vectors)
    assert not vectors[NULL_ROW].any()
    assert vectors[NULL_ROW + 1 :].any()


def test_scores_equal_those_of_step_by_step_decoding(model: Captioner, trained_causal: Config) -> None:
    check = open_dataset(Path(trained_causal.train.dataset)).validation
    judged = model.score(check, 3, 7)
    for number in range(3, 7):
        state = model.start_decoding([Prompt(model.templates[check.templates[number]])])
        likelihood, right = 0.0, 0
        for character in check.characters[check.starts[number] : check.starts[number + 1]].astype(np.int64) - 1:
            scores = state.log_probs()[0]
            likelihood += float(scores[character])
            right += int(scores.argmax() == character)
            state.append(np.array([character]))
        assert likelihood == pytest.approx(judged.log_likelihood[number - 3], abs=1e-3)
        assert right == judged.right[number - 3]


def test_selected_rows_keep_their_state(model: Captioner) -> None:
    prompts = [Prompt(template, start) for template in model.templates[:2] for start in ("", "so ma", "c")]
    state = model.start_decoding(prompts)
    alone = [model.start_decoding([prompt]).log_probs()[0] for prompt in prompts]
    np.testing.assert_allclose(state.log_probs(), np.stack(alone), atol=1e-5)
    rows = np.array([4, 4, 0])
    state.select(rows)
    np.testing.assert_allclose(state.log_probs(), np.stack(alone)[rows], atol=1e-5)


def test_it_writes_for_known_and_unknown_templates(model: Captioner, trained_causal: Config) -> None:
    made = generate_captions(
        trained_causal.model_copy(update={"generate": trained_causal.generate.model_copy(update={"seed": 1})}), SILENT
    )
    simply = [caption.boxes[0] for caption in made if caption.template_id == "one-does-not-simply"]
    assert "one does not simply" in simply
    unknown = DatasetTemplate(
        id="never", name="Never", slug="never", captions=0, boxes=2, box_count=2, geometry=(), image_key=None
    )
    written = write_captions(
        model, [Prompt(unknown)] * 4, by_threshold(0.8), max_characters=80, rng=np.random.default_rng(1)
    )
    known = {
        "memes", "cats", "bugs", "tests", "all the", "so many", "why these", "one does not simply", "walk", "sleep",
        "code", "eat", "wow", "such", "very", "much", "data", "loss", "doge",
    }  # fmt: skip
    assert sum(text in known for each in written for text in each.texts) >= 4


def test_layers_keep_the_names_that_saved_models_know_them_by() -> None:
    # Both the registered name and the paths of weights come from the name of the class.
    layers = (Table, Core, Sight)
    assert [layer.__name__ for layer in layers] == ["Table", "Core", "Sight"]
    assert all(keras.saving.get_registered_name(layer) == f"memeloom>{layer.__name__}" for layer in layers)
