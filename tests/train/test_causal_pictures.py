"""The `causal` kind with pictures: captions are packed with their pictures, and words learned from pictures alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.configs.load import load_config
from memeloom.configs.progress import SILENT
from memeloom.configs.schema import Config
from memeloom.train.backend import keras
from memeloom.train.causal.contexts import ContextSpec, table_rows
from memeloom.train.causal.network import Core, Sight, Table, join
from memeloom.train.causal.packing import CaptionPictures, PackedBatches
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner
from memeloom.train.corpus import Captions, open_dataset
from memeloom.train.fit import train_model
from memeloom.train.model_folder import load_model
from tests.train.picture_dataset import (
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
LETTERS = ContextSpec(Alphabet.of("|abc def"), "|", 12)
SIZE = 6


def random_captions(count: int = 40) -> tuple[Captions, CaptionPictures]:
    """Random captions, some of two characters, and the picture of each."""
    rng = np.random.default_rng(1)
    lengths = np.where(np.arange(count) < 30, 2, rng.integers(2, 30, count))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    made = Captions(
        characters=rng.integers(1, 8, starts[-1]).astype(np.uint16),
        boxes=np.zeros(starts[-1], np.uint8),
        starts=starts,
        templates=rng.integers(0, 5, count).astype(np.int32),
        prefixes=np.zeros((5, 1, 18), np.uint16),
    )
    vectors = rng.standard_normal((count, SIZE)).astype(np.float16)
    return made, CaptionPictures(vectors, rng.permutation(count).astype(np.int32))


def packing(made: Captions, shown: CaptionPictures) -> PackedBatches:
    return PackedBatches(made, LETTERS, rows=2, length=64, seed=5, known=range(5), unknown=0.0, shown=shown)


def test_each_packed_caption_has_its_own_picture() -> None:
    made, shown = random_captions()
    packed, found = packing(made, shown), 0
    by_text: dict[bytes, list[NDArray[np.float16]]] = {}
    for number, (first, last) in enumerate(zip(made.starts[:-1], made.starts[1:], strict=True)):
        by_text.setdefault(made.characters[first:last].tobytes(), []).append(shown.vectors[shown.rows[number]])
    for step in range(packed.steps):
        (_, begins, pictures), labels, weights = packed.batch(step)
        assert pictures.shape == (2, 16, SIZE)
        for row in range(2):
            there = int(weights[row].sum())
            places = np.flatnonzero(begins[row, :there])
            assert len(places) <= 16
            for number, (first, last) in enumerate(zip(places, [*places[1:], there], strict=True)):
                text = (labels[row, first:last] + 1).astype(np.uint16).tobytes()
                assert any((pictures[row, number] == vector).all() for vector in by_text[text])
                found += 1
            assert not pictures[row, len(places) :].any()
    assert found == len(made)


@pytest.mark.parametrize("layers", [0, 1])
def test_stepwise_output_equals_the_output_for_whole_captions(layers: int) -> None:
    characters = len(LETTERS.alphabet)
    core = Core(characters, units=8, layers=layers, hidden=12, dropout=0, blank=0, seed=1, name="core")
    table = Table(table_rows(12, characters), 4, living=characters + 1, rate=1, seed=1, name="table")
    sight = Sight(8, 1, name="sight")
    networks = join(table, core, sight, SIZE)
    networks.table.vectors.assign(np.random.default_rng(1).normal(size=networks.table.vectors.shape))
    made, shown = random_captions()
    sight.fit_statistics(shown.vectors)
    (contexts, begins, pictures), _, weights = packing(made, shown).batch(1)
    whole = np.asarray(keras.ops.log_softmax(networks.network([contexts, begins, pictures])))
    other = np.asarray(keras.ops.log_softmax(networks.network([contexts, begins, pictures[:, ::-1]])))
    assert np.abs(whole - other).max() > 0.01
    state, caption = np.zeros((2, layers, 8), np.float32), np.full(2, -1)
    for at in range(int(weights.sum(axis=1).min())):
        caption += begins[:, at] > 0
        state = np.where(begins[:, at, None, None] > 0, 0, state)
        seen = keras.ops.convert_to_numpy(sight.shown(pictures[np.arange(2), caption]))
        found, state = (np.asarray(part) for part in networks.step([contexts[:, at], state, seen]))
        np.testing.assert_allclose(found, whole[:, at], atol=1e-4)


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, write_dataset: Callable[..., Any], small_encoder: None,
) -> Config:  # fmt: skip
    """Settings of a training that saw pictures and no template names; never change its folder."""
    folder = tmp_path_factory.mktemp("seen")
    rows = {"train": captions(300, 1), "validation": captions(60, 2)}
    with_pictures(folder / "dataset", write_dataset(folder / "dataset", rows))
    own = {
        "pictures": "true", "unknown": 0.99, "units": 32, "hidden": 32, "table_bits": 10, "table_width": 4,
        "batch": 4, "length": 64, "warmup_steps": 5, "learning_rate": 0.01,
    }  # fmt: skip
    small = {
        "model": "causal", "dataset": folder / "dataset", "output": folder / "model",
        "pictures.weights": "none", "pictures.side": 75, "pictures.vectors": folder / "vectors",
        "steps": 150, "steps_per_epoch": 75, "validation_batches": 2,
        **{f"causal.{key}": value for key, value in own.items()},
    }  # fmt: skip
    config = load_config(None, [f"train.{key}={value}" for key, value in small.items()], {})
    train_model(config, SILENT)
    return config


@pytest.mark.usefixtures("small_encoder")
def test_samples_are_written_for_held_out_memes(tmp_path: Path, write_dataset: Callable[..., Any]) -> None:
    rows = {"train": captions(60, 1), "validation": captions(30, 2)}
    with_pictures(tmp_path / "dataset", write_dataset(tmp_path / "dataset", rows), images="meme")
    small = {
        "model": "causal", "dataset": tmp_path / "dataset", "output": tmp_path / "model", "causal.pictures": "true",
        "causal.units": 8, "causal.table_bits": 8, "causal.batch": 2, "causal.length": 64, "steps": 1,
        "steps_per_epoch": 1, "validation_batches": 1, "pictures.weights": "none", "pictures.side": 75,
        "pictures.vectors": tmp_path / "vectors", "samples_per_epoch": 2,
    }  # fmt: skip
    train_model(load_config(None, [f"train.{key}={value}" for key, value in small.items()], {}), SILENT)
    (row,) = map(json.loads, (tmp_path / "model" / "history.jsonl").read_text().splitlines())
    assert row["unseen_by"] == "picture"
    # Two pictures, and so the memes of two templates.
    assert [sample.split(":")[0] for sample in row["unseen"]] == ["X All The Y", "One Does Not Simply"]


@pytest.fixture(scope="module")
def model(trained: Config) -> Captioner:
    return load_model(Path(trained.train.output))


def test_it_learns_the_words_that_go_with_a_picture(model: Captioner) -> None:
    assert model.uses_pictures
    check_words_of_pictures(model)


def test_the_right_picture_makes_captions_likelier(model: Captioner, trained: Config) -> None:
    check = open_dataset(Path(trained.train.dataset)).validation
    check_likelihood_by_pictures(model, check)


def test_a_picture_in_a_file_is_captioned(trained: Config, tmp_path: Path) -> None:
    path = tmp_path / "frog.png"
    path.write_bytes(png(drawn("one-does-not-simply")))
    made = captions_for_file(trained, path)
    assert [caption.template_name for caption in made] == ["frog.png"] * 2
    assert all(caption.boxes[0] == "green" for caption in made)
