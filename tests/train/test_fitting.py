"""The parts of the training loop: the feed, learning rates, padding, overflows, history, locks and checkpoints."""

import errno
import json
import math
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.outputs import atomic_file
from memeloom.configs.schema import Config
from memeloom.configs.schema_models import Training
from memeloom.dataset.formats.tfrecord import read_records
from memeloom.train.contract import Batch
from memeloom.train.corpus import open_dataset
from memeloom.train.fit import locked
from memeloom.train.fitting.batches import Feed, PaddedBatch, pad_batch
from memeloom.train.fitting.checkpoint import CHECKPOINT, TrainingState, restore_checkpoint, save_checkpoint
from memeloom.train.fitting.devices import Devices
from memeloom.train.fitting.history import EVENTS, PLOT, TABLE, EventWriter, write_history
from memeloom.train.fitting.loop import NonFinite, TrainingLoop
from memeloom.train.fitting.optimizer import learning_rate, rate_at

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
Toy: TypeAlias = Callable[..., Config]
DEVICE: Any = SimpleNamespace(count=1, is_chief=True, kind="none")


def numbered(step: int) -> Batch:
    return np.full((2, 3), step), np.full(2, step)


def course(**changes: Any) -> Training:
    usual = {
        "passes": 1, "patience": None, "batch": 1, "learning_rate": 0.1, "schedule": "constant", "warmup_steps": 0,
        "clip_norm": None,
    }  # fmt: skip
    return Training(**usual | changes)


def row(step: int, **changes: Any) -> dict[str, Any]:
    values = {"epoch": step, "step": step, "loss": 3.0 / step, "validation_loss": 4.0 / step, "accuracy": 0.25}
    more = {"validation_accuracy": 0.125, "learning_rate": 0.5, "examples_per_second": 10.0, "samples": ["a: b"]}
    return {**values, **more, **changes}


def test_the_feed_gives_batches_in_order_and_measures_the_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(perf_counter=count().__next__)
    monkeypatch.setattr("memeloom.train.fitting.batches.time", clock)
    with Feed(numbered, 5, 9) as feed:
        assert [int(feed.take()[1][0]) for _ in range(4)] == [5, 6, 7, 8]
        assert feed.waited == 4
        with pytest.raises(IndexError):
            feed.take()


def test_the_feed_prepares_batches_ahead() -> None:
    made = threading.Event()

    def make(step: int) -> Batch:
        if step == 2:
            made.set()
        return numbered(step)

    with Feed(make, 0, 9) as feed:
        feed.take()
        # The third was not taken yet.
        assert made.wait(60)


def test_the_feed_raises_the_error_of_a_failed_batch() -> None:
    def make(step: int) -> Batch:
        raise MemeloomError(f"no batch {step}")

    with Feed(make, 3, 9) as feed, pytest.raises(MemeloomError, match="no batch 3"):
        feed.take()


def test_the_learning_rate_warms_up_and_follows_a_cosine_to_zero() -> None:
    rate = learning_rate(course(schedule="cosine", warmup_steps=4), 104)
    assert [rate_at(rate, step) for step in range(5)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])
    assert rate_at(rate, 54) == pytest.approx(0.05)
    assert rate_at(rate, 29) == pytest.approx(0.05 * (1 + math.cos(math.pi / 4)))
    assert rate_at(rate, 104) == rate_at(rate, 999) == pytest.approx(0, abs=1e-8)


def test_a_constant_learning_rate_can_warm_up() -> None:
    rate = learning_rate(course(warmup_steps=2), 10)
    assert [rate_at(rate, step) for step in (0, 1, 2, 9)] == pytest.approx([0.05, 0.1, 0.1, 0.1])
    assert learning_rate(course(), 100) == 0.1


def test_a_batch_is_padded_with_rows_of_weight_zero_to_its_size_and_a_multiple_of_devices() -> None:
    inputs = {"a": np.arange(10).reshape(5, 2), "b": np.arange(5)}
    filled = pad_batch((inputs, np.arange(5), np.array([1, 1, 1, 1, 0.5])), 0, 3)
    assert filled.labels.tolist() == filled.inputs["b"].tolist() == [0, 1, 2, 3, 4, 4]
    assert filled.inputs["a"].shape == (6, 2)
    assert filled.weights.tolist() == [1, 1, 1, 1, 0.5, 0]
    assert filled.weight == pytest.approx(4.5)
    last = pad_batch(numbered(1), 5, 2)
    assert len(last.labels) == 6
    assert last.weight == pytest.approx(2)


class Scripted:
    """Steps whose losses are known beforehand."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = iter(losses)

    def train(self, batch: PaddedBatch) -> tuple[Any, Any]:
        return np.float32(next(self.losses)), np.float32(0.5)

    def sync(self) -> None:
        pass


def learned(losses: list[float], *, may_overflow: bool) -> float:
    devices: Devices = DEVICE
    steps: Any = Scripted(losses)
    with Feed(numbered, 0, len(losses)) as feed:
        loop = TrainingLoop(steps, feed, devices, lambda *_: None, may_overflow=may_overflow)
        return loop.run(range(len(losses))).loss


def test_the_first_non_finite_loss_stops_training() -> None:
    with pytest.raises(NonFinite, match="the loss is not a number after step 3"):
        learned([1, 2, math.nan, 4, math.nan, 5, 6], may_overflow=False)
    with pytest.raises(NonFinite, match="the loss is not a number after step 1"):
        learned([math.inf], may_overflow=False)


def test_with_float16_only_many_overflows_in_a_row_stop_training() -> None:
    assert learned([1, math.inf, math.nan, 3], may_overflow=True) == 2
    assert learned([*[math.inf] * 16, 3, *[math.inf] * 16, 5], may_overflow=True) == 4
    with pytest.raises(NonFinite, match="after step 18"):
        learned([1, *[math.inf] * 17], may_overflow=True)


def test_the_history_is_written_as_csv_and_svg(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1), row(2), row(3)], "examples")
    assert (tmp_path / TABLE).read_text().splitlines()[1].startswith("1,1,3.0,4.0,")
    picture = ET.fromstring((tmp_path / PLOT).read_text())
    lines = [line for line in picture.iter("{http://www.w3.org/2000/svg}path") if line.attrib["class"][:4] == "line"]
    # Training and validation for loss and accuracy; learning rate; speed.
    assert len(lines) == 6
    heights = [[float(point.split()[1]) for point in line.attrib["d"][1:].split("L")] for line in lines]
    assert all(len(each) == 3 for each in heights)
    loss, validation = heights[:2]
    assert loss == sorted(loss), "an SVG counts from the top"
    assert all(one > other for one, other in zip(loss, validation, strict=True))


def test_tensorboard_can_parse_the_event_file(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    EventWriter(tmp_path, [row(1)])
    events = EventWriter(tmp_path, [row(1), row(200)])
    events.add(row(300))
    (path,) = (tmp_path / "tensorboard").iterdir()
    assert "tfevents" in path.name
    first, *rest = [tensorflow.compat.v1.Event.FromString(record) for record in read_records(path)]
    assert first.file_version == "brain.Event:2"
    assert [event.step for event in rest] == [1, 200, 300]
    values = {value.tag: value.simple_value for value in rest[1].summary.value}
    assert values["loss/training"] == pytest.approx(0.015)
    assert values["loss/validation"] == pytest.approx(0.02)
    assert values["learning_rate"] == 0.5


def test_a_locked_folder_is_refused_by_any_name_until_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    monkeypatch.chdir(tmp_path / "model")
    for same in (tmp_path / "model", tmp_path / "link", Path()):
        taken = pytest.raises(MemeloomError, match=rf"another training writes {same}; wait until it has ended")
        with locked(tmp_path / "model"), taken, locked(same):
            pass
        with locked(same):
            pass


def test_the_root_folder_is_refused() -> None:
    message = r"/ cannot be an output folder; choose another train\.output"
    with pytest.raises(ConfigError, match=message), locked(Path("/")):
        pass


def test_a_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("memeloom.train.fit.tempfile", SimpleNamespace(TemporaryFile=read_only))
    message = r"cannot write .*model: Read-only file system; choose another train\.output"
    with pytest.raises(MemeloomError, match=message), locked(tmp_path / "model"):
        pass


@pytest.mark.parametrize(
    ("place", "said"), [("file", "not a directory"), ("file/model", "Not a directory"), ("loop", ".*")]
)
def test_a_file_or_a_link_loop_in_place_of_the_folder_is_refused(tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(MemeloomError, match=rf"cannot write .*{place}: {said}; choose"), locked(tmp_path / place):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_half_written_files_of_a_killed_training_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    lefts = [folder / f".{CHECKPOINT}.k3_x9q2a.tmp", folder / EVENTS / ".events.out.tfevents.memeloom.abcdefgh.tmp"]
    for left in lefts:
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"half")
    with locked(folder):
        assert not any(left.exists() for left in lefts)
        with atomic_file(folder / CHECKPOINT) as stream:
            # A refused training leaves the partial files of the running one alone.
            with pytest.raises(MemeloomError, match="another training"), locked(folder):
                pass
            stream.write(b"whole")
    assert (folder / CHECKPOINT).read_bytes() == b"whole"


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8', "])
def test_an_invalid_checkpoint_is_reported_as_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CHECKPOINT).write_bytes(content)
    with pytest.raises(MemeloomError, match=r"checkpoint\.npz: damaged \(.+\); choose another .* train\.restart"):
        restore_checkpoint(tmp_path, [], {})


def test_any_flipped_bit_leaves_the_checkpoint_readable_or_is_reported_as_damage(tmp_path: Path) -> None:
    # Longer than what zipfile reads at once, so that NumPy parses the header before the checksum is compared.
    save_checkpoint(tmp_path, [np.zeros(5000)], TrainingState({"a": 1}))
    content = (tmp_path / CHECKPOINT).read_bytes()
    header, listing = content.index(b"arr_1.npy"), content.index(b"PK\x01\x02")
    variable = SimpleNamespace(assign=lambda _: None)
    refused = 0
    for at in [*range(header - 30, header + 140), *range(listing, listing + 8)]:
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            (tmp_path / CHECKPOINT).write_bytes(changed)
            try:
                restore_checkpoint(tmp_path, [variable], {"a": 1})
            except MemeloomError:
                refused += 1
    assert refused > 500


def test_the_vocabulary_of_another_dataset_is_refused(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path)
    path = tmp_path / "dataset" / "vocabulary.json"
    content = json.loads(path.read_text())
    content["characters"][0], content["characters"][1] = content["characters"][1], content["characters"][0]
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text)
    with pytest.raises(MemeloomError, match=r"vocabulary\.json: not of this dataset; build"):
        open_dataset(tmp_path / "dataset")


def test_a_dataset_without_validation_captions_is_refused(tmp_path: Path, write_dataset: Callable[..., Any]) -> None:
    write_dataset(tmp_path, {"train": [("61533", ("cats", "all the"))]})
    with pytest.raises(MemeloomError, match="no validation captions; collect more memes"):
        open_dataset(tmp_path)
