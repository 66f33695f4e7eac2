"""The `causal` kind: contexts are equal in training and decoding, never look ahead, and the model learns."""

import json
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
from memeloom.train.causal.contexts import NULL_ROW, ContextSpec, ContextState, context_rows, read_all, table_rows
from memeloom.train.causal.network import Core, Sight, Table, join
from memeloom.train.causal.packing import CaptionPictures, PackedBatches
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.corpus import Captions, open_dataset
from memeloom.train.decoding.choosers import by_threshold
from memeloom.train.decoding.sampling import write_captions
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model
from tests.train.decoding_checks import check_character_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy = Callable[..., Config]
SPEC = ContextSpec(Alphabet.of("abcde |"), "|", 12)
CHARACTERS = len(SPEC.alphabet)


def captions(count: int = 60, short: int = 0) -> Captions:
    """Random captions; some are empty boxes, some are longer than a row, the first `short` have two characters."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 50, count)
    lengths[:short] = 2
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Captions(
        characters=rng.integers(1, 8, starts[-1]).astype(np.uint16),
        boxes=np.zeros(starts[-1], np.uint8),
        starts=starts,
        templates=rng.integers(0, 5, count).astype(np.int32),
        prefixes=np.zeros((5, 1, 18), np.uint16),
    )


def contexts_of(made: Captions) -> NDArray[np.int32]:
    characters, templates = made.characters.astype(np.int64), made.templates.astype(np.int64) + 1
    state = read_all(characters, made.starts[:-1], templates, SPEC.spaces, SPEC.separator)
    return context_rows(state, SPEC.bits, CHARACTERS)


def test_contexts_of_whole_captions_equal_those_read_character_by_character() -> None:
    made = captions()
    expected = contexts_of(made)
    for number, (first, last) in enumerate(zip(made.starts[:-1], made.starts[1:], strict=True)):
        state = ContextState.begin(made.templates[number : number + 1].astype(np.int64) + 1)
        for at in range(first, last):
            np.testing.assert_array_equal(context_rows(state, SPEC.bits, CHARACTERS)[0], expected[at])
            state = state.read(made.characters[at : at + 1].astype(np.int64), SPEC.spaces, SPEC.separator)
    assert expected.min() > NULL_ROW
    assert expected.max() < table_rows(SPEC.bits, CHARACTERS)


def test_contexts_depend_only_on_earlier_characters_of_the_same_caption() -> None:
    made = captions()
    before = contexts_of(made)
    for number, at in ((0, 0), (3, int(made.starts[3])), (7, int(made.starts[8]) - 1)):
        changed = made.characters.copy()
        changed[at] = changed[at] % 7 + 1
        after = contexts_of(replace(made, characters=changed))
        other = np.flatnonzero((before != after).any(axis=1))
        assert ((other > at) & (other < made.starts[number + 1])).all()


def packing(made: Captions, **changes: Any) -> PackedBatches:
    return PackedBatches(
        made, SPEC, **{"rows": 3, "length": 64, "seed": 5, "known": range(5), "unknown": 0.0, **changes}
    )


def packed_captions(batch: Any) -> Iterator[list[tuple[int, ...]]]:
    """The captions in each row of a batch."""
    (_, begins, *_), labels, weights = batch
    for row in range(len(labels)):
        there = weights[row] > 0
        assert (np.diff(there.astype(int)) <= 0).all()
        parts = np.split(labels[row][there] + 1, np.flatnonzero(begins[row][there])[1:])
        yield [tuple(part.tolist()) for part in parts if len(part)]


def counted(packed: PackedBatches, steps: range) -> Counter[tuple[int, ...]]:
    return Counter(text for step in steps for row in packed_captions(packed.batch(step)) for text in row)


def test_each_pass_holds_every_caption_once_in_a_new_order() -> None:
    made = captions()
    packed = packing(made)
    steps = packed.steps
    whole = Counter(tuple(text.tolist()) for text in np.split(made.characters, made.starts[1:-1]))
    assert counted(packed, range(steps)) == counted(packed, range(steps, 2 * steps)) == whole
    assert steps * packed.characters <= made.examples
    assert packed.batch(steps)[1].tolist() != packed.batch(0)[1].tolist()


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
    found = counted(packed, range(packed.steps))
    assert sum(found.values()) == len(made)
    assert max(map(len, found)) == 32


def test_each_packed_caption_has_its_own_picture() -> None:
    made = captions(40, short=30)
    rows = np.random.default_rng(1).permutation(40).astype(np.int32)
    vectors = np.zeros((40, 2), np.float16)
    vectors[rows] = [(len(text), text.sum()) for text in np.split(made.characters, made.starts[1:-1])]
    packed, found = packing(made, rows=2, shown=CaptionPictures(vectors, rows)), 0
    for step in range(packed.steps):
        batch = packed.batch(step)
        for texts, pictures in zip(packed_captions(batch), batch[0][2].tolist(), strict=True):
            assert pictures == [[len(text), sum(text)] for text in texts] + [[0, 0]] * (16 - len(texts))
            found += len(texts)
    assert found == len(made)


def test_rare_contexts_are_left_out_from_the_second_pass_on() -> None:
    made = captions()
    packed = packing(made)
    counts = np.bincount(contexts_of(made).ravel())
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
    unknown = np.setdiff1d(np.concatenate([rows.ravel() for rows in read]), contexts_of(made))
    kept = [packed.batch(step)[0][0] for step in range(packed.steps, 2 * packed.steps)]
    assert np.isin(kept, unknown).sum() > 100


@pytest.mark.parametrize(("layers", "length", "pictures"), [(0, 96, True), (2, 96, True), (1, 272, False)])
def test_stepwise_output_equals_the_output_for_whole_captions(layers: int, length: int, pictures: bool) -> None:
    core = Core(CHARACTERS, units=8, layers=layers, hidden=12, dropout=0, blank=0, seed=1, name="core")
    table = Table(table_rows(12, CHARACTERS), 4, living=CHARACTERS + 1, rate=1, seed=1, name="table")
    sight = Sight(8, 1, name="sight") if pictures else None
    networks, rng = join(table, core, sight, 6), np.random.default_rng(1)
    table.vectors.assign(rng.normal(size=table.vectors.shape))
    vectors = rng.standard_normal((2, 16, 6), np.float32)
    shown = [] if sight is None else [vectors]
    (contexts, begins), _, weights = packing(captions(), rows=2, length=length).batch(0)
    whole = np.asarray(keras.ops.log_softmax(networks.network([contexts, begins, *shown])))
    uneven = keras.ops.log_softmax(networks.network([contexts[:, :-3], begins[:, :-3], *shown]))
    np.testing.assert_allclose(uneven, whole[:, :-3], atol=1e-4)
    state, caption = np.zeros((2, layers, 8), np.float32), np.full(2, -1)
    for at in range(int(weights.sum(axis=1).min())):
        caption += begins[:, at] > 0
        state = np.where(begins[:, at, None, None] > 0, 0, state)
        seen = [] if sight is None else [keras.ops.convert_to_numpy(sight.shown(vectors[np.arange(2), caption]))]
        found, state = (np.asarray(part) for part in networks.step([contexts[:, at], state, *seen]))
        np.testing.assert_allclose(found, whole[:, at], atol=1e-4)


@pytest.fixture(scope="module")
def model(trained_causal: Config) -> Captioner:
    """The trained model, loaded from its folder."""
    return load_model(Path(trained_causal.train.output))


@pytest.mark.soak
def test_training_and_decoding_with_xla_give_what_they_give_without(
    toy: Toy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sizes = {"model": "causal", "steps": 2, "steps_per_epoch": 2, "validation_batches": 1, "causal__blank": 0}
    plain, compiled = (toy(tmp_path, output=str(tmp_path / name), **sizes) for name in ("plain", "compiled"))
    train_model(plain)
    request.getfixturevalue("xla")
    train_model(compiled)
    row, other = (json.loads((tmp_path / name / "history.jsonl").read_text()) for name in ("plain", "compiled"))
    for name in ("loss", "validation_loss"):
        assert row[name] == pytest.approx(other[name], rel=1e-4)
    assert row["samples"] == other["samples"]


def test_it_learns_the_toy_language(model: Captioner, trained_causal: Config) -> None:
    check = open_dataset(Path(trained_causal.train.dataset)).validation
    judged = model.score(check, 0, len(check))
    # Three letters in four have no choice.
    assert judged.right.sum() / judged.tokens.sum() > 0.75
    assert -judged.log_likelihood.sum() / judged.characters.sum() / np.log(2) < 1
    vectors = np.asarray(model.networks["causal"].get_layer("table").vectors)
    assert not vectors[NULL_ROW].any()
    assert vectors[NULL_ROW + 1 :].any()


def test_it_writes_learned_words_for_an_unknown_template(model: Captioner, trained_causal: Config) -> None:
    check = open_dataset(Path(trained_causal.train.dataset)).validation
    known = {box for text in check.texts(model.alphabet) for box in text.split("|")}
    unknown = model.templates[0].model_copy(update={"id": "never", "boxes": 2})
    rng = np.random.default_rng(1)
    written = write_captions(model, [Prompt(unknown)] * 4, by_threshold(0.8), max_characters=80, rng=rng)
    assert sum(text in known for each in written for text in each.texts) >= 4


def test_a_template_without_training_captions_counts_as_unknown(
    tmp_path: Path, toy: Toy, write_dataset: Callable[..., Any]
) -> None:
    learned = [("61533", ("cats", "all the")), ("61533", ("bugs", "so many"))] * 8
    held_out = [("one-does-not-simply", ("one does not simply", "walk"))]
    write_dataset(tmp_path / "dataset", {"train": learned, "validation": held_out, "test": held_out})
    config = toy(tmp_path, model="causal", steps=4, steps_per_epoch=4)
    train_model(config)
    model = load_model(Path(config.train.output))
    held = model.templates[1]
    assert held.id == "one-does-not-simply"
    unknown = held.model_copy(update={"id": "never"})
    prompts = [Prompt(each) for each in (model.templates[0], held, unknown)]
    of_learned, of_held, of_unknown = model.start_decoding(prompts).log_probs()
    np.testing.assert_array_equal(of_held, of_unknown)
    assert not np.array_equal(of_learned, of_held)
    check = open_dataset(Path(config.train.dataset)).validation
    far = replace(check, templates=check.templates + 5)
    np.testing.assert_allclose(model.score(check, 0, 1).log_likelihood, model.score(far, 0, 1).log_likelihood)


def test_decoding_state_and_scores_agree(model: Captioner) -> None:
    check_character_model(model)


def test_layers_keep_the_names_that_saved_models_know_them_by() -> None:
    # Both the registered name and the paths of weights come from the name of the class.
    layers = (Table, Core, Sight)
    assert [layer.__name__ for layer in layers] == ["Table", "Core", "Sight"]
    assert all(keras.saving.get_registered_name(layer) == f"memeloom>{layer.__name__}" for layer in layers)
