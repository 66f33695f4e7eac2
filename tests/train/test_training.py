"""A training learns, leaves a model that is complete in itself, and cannot be hurt by kill -9."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import write_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.dataset.manifest import NotADataset
from memeloom.train.backend import keras
from memeloom.train.checkpoint import CHECKPOINT
from memeloom.train.convnet.model import build_convnet
from memeloom.train.fit import train_model
from memeloom.train.generate import generate_captions
from memeloom.train.model_folder import CARD, NotAModel, load_model

# Keras 3.15 asks TensorFlow's tensors for arrays in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
ROOT = Path(__file__).parents[2]
# Kills itself after so many steps.
MORTAL = """
import os, signal, sys
from pathlib import Path
from memeloom.configs.load import load_config
from memeloom.train.fit import train_model

class Doom:
    def __init__(self, steps): self.left = steps
    def start(self, stage, total, unit): pass
    def finish(self): pass
    def advance(self, n=1, **counts):
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

train_model(load_config(Path(sys.argv[1]), (), {}), Doom(int(sys.argv[2])))
"""


class Recorder(Silent):
    """Remembers the tallies."""

    def __init__(self) -> None:
        self.units = 0
        self.counts: dict[str, int] = {}

    def advance(self, n: int = 1, **counts: int) -> None:
        self.units += n
        self.counts |= counts


def history(config: Config) -> list[dict[str, Any]]:
    """The rows without what a clock says."""
    clock = ("seconds", "examples_per_second", "waiting")
    lines = (Path(config.train.output) / "history.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in clock} for line in lines]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy: Toy) -> Config:
    """Settings of a training that has learned the toy language; never change its folder."""
    folder = tmp_path_factory.mktemp("trained")
    config = toy(
        folder,
        convnet__filters=32,
        convnet__batch=64,
        steps=150,
        steps_per_epoch=50,
        convnet__learning_rate=0.005,
        convnet__dropout=0,
    )
    train_model(config, Silent())
    return config


@pytest.fixture
def model_copy(trained: Config, tmp_path: Path) -> Path:
    """A copy of the trained model's folder, to be damaged."""
    return Path(shutil.copytree(trained.train.output, tmp_path / "model"))


def test_the_network_is_the_articles_to_the_last_parameter() -> None:
    network = build_convnet(70, filters=1024, embedding=16, sequence_length=128, dropout=0.25, seed=1)
    trainable = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    assert network.count_params() == 22_205_622
    assert trainable == 22_193_334
    assert network.output_shape == (None, 70)


def test_it_learns_and_the_loss_on_unseen_captions_falls(trained: Config) -> None:
    rows = history(trained)
    assert [row["step"] for row in rows] == [50, 100, 150]
    assert rows[-1]["validation_loss"] < rows[0]["validation_loss"]
    # The toy language leaves three letters in four without a choice.
    assert rows[-1]["validation_accuracy"] > 0.7


def test_the_history_says_the_same_as_csv(trained: Config) -> None:
    with (Path(trained.train.output) / "history.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert [float(row["validation_loss"]) for row in table] == [row["validation_loss"] for row in history(trained)]


def test_samples_of_every_epoch_are_kept(trained: Config) -> None:
    assert all(len(row["samples"]) == 3 for row in history(trained))
    assert history(trained)[-1]["samples"][0].startswith("X All The Y: ")


def test_the_model_folder_alone_is_enough(trained: Config, model_copy: Path) -> None:
    for name in (CHECKPOINT, "history.csv", "history.jsonl", "history.svg"):
        (model_copy / name).unlink()
    model = load_model(model_copy)
    best = min(history(trained), key=lambda row: row["validation_loss"])
    metrics = json.loads((model_copy / "metrics.json").read_text())
    assert metrics["validation_loss"] == best["validation_loss"]
    assert model.networks["convnet"].input_shape == (None, 48)
    assert {template.id: template.boxes for template in model.templates} == {
        "61533": 2,
        "one-does-not-simply": 2,
        "8072285": 3,
    }
    assert sorted(path.name for path in model_copy.iterdir()) == [
        "config.yaml", "convnet.keras", "metrics.json", "model.json", "templates.json", "vocabulary.json",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["convnet.keras", "vocabulary.json", "templates.json", "metrics.json", "config.yaml"])
def test_a_damaged_model_is_refused(model_copy: Path, name: str) -> None:
    content = bytearray((model_copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (model_copy / name).write_bytes(content)
    with pytest.raises(NotAModel, match=rf"{name}: damaged .*; train again"):
        load_model(model_copy)


def test_a_model_that_lost_a_file_is_refused(model_copy: Path) -> None:
    (model_copy / "templates.json").unlink()
    with pytest.raises(NotAModel, match=r"templates\.json: missing"):
        load_model(model_copy)


def test_a_model_of_another_version_is_refused(model_copy: Path) -> None:
    card = json.loads((model_copy / CARD).read_text())
    (model_copy / CARD).write_text(json.dumps({**card, "version": 3}))
    with pytest.raises(NotAModel, match="version 3, expected 2; train again"):
        load_model(model_copy)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAModel, match=r"no model here \(no model\.json\); train one with `memeloom train`"):
        load_model(tmp_path)


@pytest.mark.parametrize("kind", ["convnet", "causal"])
def test_kill_9_at_a_random_moment_changes_nothing(toy: Toy, tmp_path: Path, kind: str) -> None:
    # Equal to 1e-4: the sums of a convolution run over threads, whose number the machine may change under us.
    sizes: dict[str, Any] = {"model": kind, "steps": 36, "steps_per_epoch": 6}
    undisturbed = toy(tmp_path, output=str(tmp_path / "undisturbed"), **sizes)
    train_model(undisturbed, Silent())
    killed = toy(tmp_path, output=str(tmp_path / "killed"), **sizes)
    write_config(tmp_path / "killed.yaml", killed)
    steps = random.randint(1, 35)
    died = subprocess.run(
        [sys.executable, "-c", MORTAL, str(tmp_path / "killed.yaml"), str(steps)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=250, check=False, capture_output=True,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    train_model(killed, Silent())
    rows, expected = history(killed), history(undisturbed)
    for row, other in zip(rows, expected, strict=True):
        assert row["step"] == other["step"]
        for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
            assert row[name] == pytest.approx(other[name], rel=1e-4)
    weights, others = (
        load_model(Path(config.train.output)).networks[kind].get_weights() for config in (killed, undisturbed)
    )
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-5)


def test_a_complete_training_is_left_as_it_is_and_goes_on_when_asked_for_more(toy: Toy, tmp_path: Path) -> None:
    train_model(toy(tmp_path, steps=4), Silent())
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert train_model(toy(tmp_path, steps=4), Silent()).counts["steps"] == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()} == files
    progress = Recorder()
    summary = train_model(toy(tmp_path, steps=10), progress)
    assert summary.counts["steps"] == 6
    assert progress.units == summary.counts["examples"] == 6 * 32
    assert [row["step"] for row in history(toy(tmp_path))] == [4, 8, 10]


def test_another_training_in_the_folder_is_refused_unless_told_to_begin_anew(toy: Toy, tmp_path: Path) -> None:
    train_model(toy(tmp_path, steps=4), Silent())
    with pytest.raises(MemeloomError, match=r"filters was 16, now 24; choose another train\.output, or .*restart"):
        train_model(toy(tmp_path, steps=4, convnet__filters=24), Silent())
    assert train_model(toy(tmp_path, steps=4, convnet__filters=24, restart=True), Silent()).counts["steps"] == 4


def test_another_dataset_is_another_training(toy: Toy, tmp_path: Path, write_dataset: Callable[..., Any]) -> None:
    config = toy(tmp_path, steps=4)
    train_model(config, Silent())
    rows = [("61533", ("cats", "all the")), ("61533", ("bugs", "all the"))]
    write_dataset(tmp_path / "other", {"train": rows, "validation": rows[:1]})
    with pytest.raises(MemeloomError, match="holds another training"):
        train_model(toy(tmp_path, steps=4, dataset=str(tmp_path / "other")), Silent())


@pytest.mark.parametrize(
    ("poisoned", "said"),
    [(slice(1, None), "the loss is not a number after step 5"), (slice(1, 2), "a weight is not a number after step 8")],
)
def test_what_is_not_a_number_stops_the_training_and_the_last_good_state_stays(
    toy: Toy, tmp_path: Path, poisoned: slice, said: str
) -> None:
    train_model(toy(tmp_path, steps=4), Silent())
    checkpoint = tmp_path / "model" / CHECKPOINT
    with np.load(checkpoint) as held:
        arrays = {name: held[name] for name in held.files}
    for name in list(arrays)[poisoned]:
        if arrays[name].dtype == np.float32:
            arrays[name][...] = np.nan
    np.savez(checkpoint.with_suffix(""), **arrays)
    before = {path: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    with pytest.raises(MemeloomError, match=rf"{said}; .* keeps the state of step 4"):
        train_model(toy(tmp_path, steps=8), Silent())
    assert {path: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


def test_a_damaged_checkpoint_is_refused(toy: Toy, tmp_path: Path) -> None:
    train_model(toy(tmp_path, steps=4), Silent())
    checkpoint = tmp_path / "model" / CHECKPOINT
    checkpoint.write_bytes(checkpoint.read_bytes()[:-500])
    with pytest.raises(MemeloomError, match=r"checkpoint\.npz: damaged .*train\.restart"):
        train_model(toy(tmp_path, steps=8), Silent())


def test_too_little_memory_is_said_plainly(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(MemeloomError, match=r"out of memory with train\.convnet\.batch=32; lower it, or make"):
        train_model(toy(tmp_path, convnet__filters=200_000), Silent())


def test_no_dataset_is_said_plainly(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(NotADataset, match="build one with `memeloom build-dataset`"):
        train_model(toy(tmp_path, dataset=str(tmp_path / "nothing")), Silent())


def generating(config: Config, **changes: Any) -> Config:
    return config.model_copy(update={"generate": config.generate.model_copy(update={"seed": 1, **changes})})


def test_captions_fill_the_boxes_of_their_template_with_learned_words(trained: Config) -> None:
    made = generate_captions(generating(trained, captions=4, min_score=0.5), Silent())
    assert len(made) >= 6  # the toy language has few captions for a template, and none is written twice
    assert all(len(caption.boxes) == {"8072285": 3}.get(caption.template_id, 2) for caption in made)
    assert all(0 < caption.score <= 1 for caption in made)
    simply = [caption.boxes for caption in made if caption.template_id == "one-does-not-simply"]
    assert "one does not simply" in [boxes[0] for boxes in simply]


def test_a_seed_repeats_the_captions_and_another_does_not(trained: Config) -> None:
    first, again, other = (generate_captions(generating(trained, seed=seed), Silent()) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", ["one-does-not-simply", "ONE-does-NOT-simply", "one does not simply"])
def test_a_template_goes_by_id_slug_or_name(trained: Config, name: str) -> None:
    made = generate_captions(generating(trained, templates=(name,), captions=1), Silent())
    assert [caption.template_name for caption in made] == ["One Does Not Simply"]


def test_an_unknown_template_is_answered_with_the_nearest(trained: Config) -> None:
    with pytest.raises(
        MemeloomError, match=r"unknown template 'one-dos-not-simpl'; .*: One Does Not Simply; .* generate\.boxes"
    ):
        generate_captions(generating(trained, templates=("doge", "one-dos-not-simpl")), Silent())


def test_a_template_that_is_named_twice_is_written_for_once(trained: Config) -> None:
    made = generate_captions(generating(trained, templates=("doge", "8072285"), method="greedy"), Silent())
    assert [caption.template_id for caption in made] == ["8072285"]


def test_told_how_many_boxes_it_writes_for_a_template_that_it_never_learned(trained: Config) -> None:
    made = generate_captions(generating(trained, templates=("New One", "doge"), boxes=4, captions=1), Silent())
    assert [(caption.template_name, len(caption.boxes)) for caption in made] == [("New One", 4), ("Doge", 4)]


def test_captions_begin_with_the_start_text(trained: Config) -> None:
    made = generate_captions(generating(trained, templates=("61533",), start="CATS ☃|al"), Silent())
    assert [caption.boxes[0] for caption in made] == ["cats ☃"] * 3
    assert all(caption.boxes[1].startswith("al") for caption in made)


def test_a_start_text_that_leaves_no_box_is_refused(trained: Config) -> None:
    with pytest.raises(MemeloomError, match="fills all 2 boxes of 'X All The Y' already"):
        generate_captions(generating(trained, templates=("61533",), start="cats|all the|"), Silent())


def test_a_caption_that_grows_too_long_is_closed(trained: Config) -> None:
    made = generate_captions(generating(trained, templates=("61533",), max_characters=3, min_score=1), Silent())
    assert all(len("|".join(caption.boxes)) <= 4 and len(caption.boxes) == 2 for caption in made)


def test_captions_that_say_nothing_are_counted_and_never_returned(
    trained: Config, model_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_silent(model_copy)
    progress = Recorder()
    with pytest.raises(MemeloomError, match="every caption came out empty"):
        generate_captions(generating(trained, model=str(model_copy), captions=2), progress)
    assert progress.counts == {"written": 0, "empty": 6, "repeated": 0}


def _make_silent(folder: Path) -> None:
    """Change the model in `folder` so that it writes nothing but separators."""
    from memeloom.dataset.manifest import file_sha256

    model = load_model(folder)
    kernel, bias = model.networks["convnet"].layers[-1].get_weights()
    bias[int(model.boxes_closed.argmax())] = 1e6
    model.networks["convnet"].layers[-1].set_weights([kernel, bias])
    keras.saving.save_model(model.networks["convnet"], folder / "convnet.keras")
    card = json.loads((folder / CARD).read_text())
    card["files"]["convnet.keras"] = file_sha256(folder / "convnet.keras")
    (folder / CARD).write_text(json.dumps(card))
