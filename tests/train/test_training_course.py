"""What happens on the way: early ends, models that are kept, samples, precision, interruptions, full disks, JAX."""

import errno
import json
import os
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
from memeloom.train.backend import keras
from memeloom.train.checkpoint import CHECKPOINT
from memeloom.train.fit import Interrupted, train_model
from memeloom.train.fitting.lock import locked
from memeloom.train.model_folder import load_model

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
ROOT = Path(__file__).parents[2]


def rows(config: Config) -> list[dict[str, Any]]:
    lines = (Path(config.train.output) / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


class Stopping(Silent):
    """Presses ctrl-C at a step."""

    def __init__(self, step: int) -> None:
        self.left = step

    def advance(self, n: int = 1, **counts: int) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_training_that_gets_no_better_ends_and_stays_ended(toy: Toy, tmp_path: Path) -> None:
    # A step so long that nothing gets better after it.
    sizes: dict[str, Any] = {"steps": 40, "steps_per_epoch": 2, "convnet__learning_rate": 1.0, "samples_per_epoch": 0}
    config = toy(tmp_path, patience=2, **sizes)
    train_model(config, Silent())
    losses = [row["validation_loss"] for row in rows(config)]
    assert len(losses) < 20
    assert min(losses) == losses[-3]
    assert train_model(config, Silent()).counts["steps"] == 0
    # One more epoch in vain is allowed now.
    train_model(toy(tmp_path, patience=3, **sizes), Silent())
    assert len(rows(config)) >= len(losses) + 1


def test_a_model_is_kept_every_so_many_epochs_with_captions_for_what_was_never_seen(toy: Toy, tmp_path: Path) -> None:
    config = toy(tmp_path, steps=8, steps_per_epoch=2, keep_every=2, tensorboard=True)
    train_model(config, Silent())
    kept = sorted((tmp_path / "model" / "epochs").iterdir())
    assert [folder.name for folder in kept] == ["0002", "0004"]
    assert json.loads((kept[0] / "metrics.json").read_text())["step"] == 4
    assert load_model(kept[1]).kind == "convnet"
    last = rows(config)[-1]
    # All templates were learned, so that captions of validation are continued behind their first box.
    assert last["unseen_by"] == "beginning"
    assert any(sample.startswith("One Does Not Simply: one does not simply / ") for sample in last["unseen"])
    assert 0 <= last["waiting"] <= 1
    assert (tmp_path / "model" / "tensorboard").is_dir()


def test_without_samples_there_are_none(toy: Toy, tmp_path: Path) -> None:
    config = toy(tmp_path, steps=1, steps_per_epoch=1, samples_per_epoch=0)
    train_model(config, Silent())
    assert rows(config)[0]["samples"] == rows(config)[0]["unseen"] == []


def test_templates_without_captions_to_learn_from_are_sampled_where_there_are_any(
    toy: Toy, tmp_path: Path, write_dataset: Callable[..., Any]
) -> None:
    learned = [("61533", ("cats", "all the")), ("61533", ("bugs", "so many"))] * 8
    held_out = [("one-does-not-simply", ("one does not simply", "walk"))]
    write_dataset(tmp_path / "dataset", {"train": learned, "validation": held_out})
    config = toy(tmp_path, steps=1, steps_per_epoch=1)
    train_model(config, Silent())
    (row,) = rows(config)
    assert row["unseen_by"] == "template"
    assert [sample.split(":")[0] for sample in row["samples"]] == ["X All The Y"]
    assert [sample.split(":")[0] for sample in row["unseen"]] == ["One Does Not Simply"]


@pytest.mark.parametrize("kind", ["convnet", "causal"])
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_it_learns_in_16_bits_and_goes_on_exactly(toy: Toy, tmp_path: Path, precision: str, kind: str) -> None:
    sizes: dict[str, Any] = {
        "model": kind, "steps_per_epoch": 10, "precision": precision, "convnet__clip_norm": 1.0,
        "causal__schedule": "constant",
    }  # fmt: skip
    config = toy(tmp_path, steps=20, **sizes)
    train_model(config, Silent())
    losses = [row["loss"] for row in rows(config)]
    assert losses[-1] < losses[0]
    assert keras.config.dtype_policy().name == "float32"
    again = toy(tmp_path, steps=10, output=str(tmp_path / "again"), **sizes)
    train_model(again, Silent())
    train_model(toy(tmp_path, steps=20, output=str(tmp_path / "again"), **sizes), Silent())
    assert rows(again)[-1]["loss"] == pytest.approx(losses[-1], rel=1e-3)


def test_ctrl_c_keeps_the_last_epoch_and_says_so(toy: Toy, tmp_path: Path) -> None:
    config = toy(tmp_path)
    with pytest.raises(Interrupted, match=r"interrupted in the steps 5 to 8; .* keeps the state of step 4; go on"):
        train_model(config, Stopping(6))
    assert Interrupted("").exit_code == 130
    assert train_model(config, Silent()).counts["steps"] == 8


def test_a_full_disk_leaves_the_old_checkpoint(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_model(toy(tmp_path, steps=4), Silent())
    path = tmp_path / "model" / CHECKPOINT
    before = path.read_bytes()

    def full(stream: Any, *arrays: Any, **more: Any) -> None:
        stream.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(MemeloomError, match=r"cannot write .*checkpoint\.npz: the disk is full"):
            train_model(toy(tmp_path, steps=8), Silent())
    assert path.read_bytes() == before
    assert train_model(toy(tmp_path, steps=8), Silent()).counts["steps"] == 4


def test_a_second_training_in_the_folder_is_refused_while_the_first_runs(toy: Toy, tmp_path: Path) -> None:
    config = toy(tmp_path)
    with locked(Path(config.train.output)), pytest.raises(MemeloomError, match="another training writes"):
        train_model(config, Silent())


def test_another_schedule_or_precision_is_another_training(toy: Toy, tmp_path: Path) -> None:
    train_model(toy(tmp_path, steps=1, samples_per_epoch=0), Silent())
    for changes, said in (
        ({"convnet__clip_norm": 1.0}, "clip_norm was None, now 1.0"),
        ({"convnet__schedule": "cosine"}, "schedule was constant, now cosine"),
        ({"precision": "mixed_bfloat16"}, "precision was float32, now mixed_bfloat16"),
    ):
        with pytest.raises(MemeloomError, match=said):
            train_model(toy(tmp_path, steps=2, **changes), Silent())


@pytest.mark.parametrize("kind", ["convnet", "causal"])
def test_it_trains_and_goes_on_exactly_on_jax(toy: Toy, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("jax")
    sizes: dict[str, Any] = {
        "model": kind, "steps_per_epoch": 2, "samples_per_epoch": 1, "convnet__schedule": "cosine",
    }  # fmt: skip
    paths = []
    for name in ("once", "twice"):
        config = toy(tmp_path, steps=4, output=str(tmp_path / name), **sizes)
        write_config(tmp_path / f"{name}.yaml", config)
        paths.append(str(tmp_path / f"{name}.yaml"))
    script = """
import sys
from pathlib import Path
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.train.fit import Interrupted, train_model

class Stopping(Silent):
    left = 3
    def advance(self, n=1, **counts):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

once, twice = (load_config(Path(path), (), {}) for path in sys.argv[1:])
train_model(once, Silent())
try:
    train_model(twice, Stopping())
except Interrupted:
    train_model(twice, Silent())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, *paths], cwd=ROOT, timeout=250, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "jax"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    states = []
    for name in ("once", "twice"):
        with np.load(tmp_path / name / CHECKPOINT) as held:
            states.append([held[array] for array in held.files if array != "arr_0"])
    assert all(np.array_equal(one, other) for one, other in zip(*states, strict=True))
    assert len(states[0]) > 30
