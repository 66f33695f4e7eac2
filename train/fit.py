"""The stage that trains the captioning network."""

import csv
import io
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.errors import MemeloomError
from configs.outputs import write_text
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config, Train, Training
from dataset.manifest import read_manifest
from dataset.vocabulary import read_vocabulary
from train.backend import OUT_OF_MEMORY, keras
from train.characters import Alphabet
from train.checkpoint import CHECKPOINT, Position, restore_checkpoint, save_checkpoint
from train.contract import Batch, Dataset, Lesson, Prompt
from train.corpus import read_captions
from train.decoding.choose import by_threshold
from train.decoding.write import write_captions
from train.kinds import open_kind
from train.model_folder import CARD, write_model

_SAMPLE_MIN_SCORE = 0.1
_SAMPLE_CHARACTERS = 100


def train_model(config: Config, progress: Progress) -> Summary:
    """Train the network on `train.dataset` for `train.steps` steps and leave the best in `train.output`.

    Goes on from the checkpoint in `train.output` if it is of the same network, dataset and schedule.
    After each epoch: validation on captions that are never trained on, samples, a checkpoint, and the
    model folder if it is the best so far.

    Raises:
        NotADataset, DamagedRecords: no dataset, or a damaged one.
        MemeloomError: no captions to train or validate on, another training in the folder,
            a loss that is not a number, or not enough memory.
    """
    settings = config.train
    try:
        return _Training(config, progress).run()
    except OUT_OF_MEMORY as error:
        section = settings.model.replace("-", "_")
        course = open_kind(settings.model).course(settings)
        raise MemeloomError(
            f"out of memory with train.{section}.batch={course.batch}; lower it, or make the network smaller "
            f"(train.{section})"
        ) from error


class _Training:
    """One run of the trainer: the data, the network, and where it stands."""

    def __init__(self, config: Config, progress: Progress) -> None:
        self._began = time.perf_counter()
        self._seconds = dict.fromkeys(("read", "train", "validate"), 0.0)
        self._config, self._settings, self._progress = config, config.train, progress
        self._folder = Path(config.train.output)
        data = Path(config.train.dataset)
        manifest = read_manifest(data)
        alphabet = Alphabet.of(read_vocabulary(data).characters)
        learn, check = (read_captions(data, manifest, split, alphabet) for split in ("train", "validation"))
        self._dataset = Dataset(data, manifest, alphabet, learn, check)
        self._seconds["read"] = time.perf_counter() - self._began
        kind = open_kind(self._settings.model)
        self._course = kind.course(self._settings)
        self._lesson = kind.lesson(self._settings, self._dataset)
        _compile(self._lesson, self._course)
        self._position = self._restored(_identity(self._settings, self._course, self._dataset))
        self._first_step = self._position.step

    def run(self) -> Summary:
        settings, position = self._settings, self._position
        self._progress.start("train", max(settings.steps - position.step, 0) * self._lesson.units, self._lesson.unit)
        while position.step < settings.steps:
            epoch = position.step // settings.steps_per_epoch + 1
            self._epoch(range(position.step, min(epoch * settings.steps_per_epoch, settings.steps)))
        self._progress.finish()
        if not (self._folder / CARD).exists():
            raise MemeloomError(f"{self._folder}: the training is complete but its model is gone; set train.restart")
        return self._summary()

    def _restored(self, identity: Mapping[str, Any]) -> Position:
        if self._settings.restart:
            (self._folder / CHECKPOINT).unlink(missing_ok=True)
        return restore_checkpoint(self._folder, _variables(self._lesson), identity)

    def _epoch(self, steps: range) -> None:
        """Train `steps`, validate, and keep what came of it."""
        began = time.perf_counter()
        learned = self._fit(steps)
        trained = time.perf_counter()
        row: dict[str, Any] = {
            "epoch": len(self._position.history) + 1,
            "step": steps.stop,
            self._lesson.unit: steps.stop * self._lesson.units,
            **learned,
            **self._validate(steps.stop),
            "seconds": round(trained - began, 3),
            "samples": self._samples(steps.stop),
        }
        self._seconds["train"] += trained - began
        self._seconds["validate"] += time.perf_counter() - trained
        position = self._position
        position.step = steps.stop
        position.history.append(row)
        if position.best is None or row["validation_loss"] < position.best:
            position.best = row["validation_loss"]
            write_model(self._folder, self._lesson.captioner, row, self._config)
        # After the model: a run that dies in between repeats the epoch and writes the same model again.
        save_checkpoint(self._folder, _variables(self._lesson), position)
        _write_history(self._folder, position.history)

    def _fit(self, steps: range) -> dict[str, float]:
        lesson = self._lesson
        watch = _Watch(self._progress, self._settings, self._course, lesson.units, steps.start, self._position.step)
        fitted = lesson.trainee.fit(_Batches(lesson.batch, steps), verbose=0, shuffle=False, callbacks=[watch])
        return {name: float(fitted.history[name][-1]) for name in ("loss", "accuracy")}

    def _validate(self, step: int) -> dict[str, float]:
        found = self._lesson.checked.evaluate(
            _Batches(self._lesson.check, range(self._lesson.checks)), verbose=0, return_dict=True
        )
        # Some kernels take NaN for nought, so that dead weights do not show in the loss.
        if not math.isfinite(found["loss"]) or not all(map(_finite, _weights(self._lesson))):
            raise _diverged(self._settings, self._course, "validation loss or a weight", step, self._position.step)
        return {f"validation_{name}": float(found[name]) for name in ("loss", "accuracy")}

    def _samples(self, step: int) -> list[str]:
        """Captions of the network as it is, for the history."""
        model = self._lesson.captioner
        written = write_captions(
            model,
            [Prompt(template) for template in model.templates[: self._settings.samples_per_epoch]],
            by_threshold(_SAMPLE_MIN_SCORE),
            max_characters=_SAMPLE_CHARACTERS,
            rng=np.random.default_rng([self._settings.seed, step]),
        )
        return [f"{made.template.name}: {' / '.join(made.texts)}" for made in written]

    def _summary(self) -> Summary:
        position = self._position
        best = min(position.history, key=lambda row: row["validation_loss"])
        steps = position.step - self._first_step
        return Summary(
            "train",
            counts={
                "steps": steps,
                self._lesson.unit: steps * self._lesson.units,
                "captions": len(self._dataset.learn),
                "validation_captions": len(self._dataset.check),
                "parameters": sum(network.count_params() for network in self._lesson.captioner.networks.values()),
                "best_step": best["step"],
                "validation_loss": round(best["validation_loss"], 4),
                "validation_accuracy": round(best["validation_accuracy"], 4),
            },
            outputs={"model": str(self._folder), "history": str(self._folder / "history.csv")},
            seconds={**self._seconds, "total": time.perf_counter() - self._began},
        )


class _Batches(keras.utils.PyDataset):  # type: ignore[misc]  # keras has no types
    """The batches of `steps`, made in a thread while the network learns."""

    def __init__(self, batch: Callable[[int], Batch], steps: range) -> None:
        super().__init__(workers=1, max_queue_size=8)
        self._batch, self._steps = batch, steps

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, index: int) -> Batch:
        return self._batch(self._steps[index])


class _Watch(keras.callbacks.Callback):  # type: ignore[misc]  # keras has no types
    """Tells the progress about every step, and stops at the first loss that is not a number."""

    def __init__(
        self, progress: Progress, settings: Train, course: Training, units: int, first: int, kept: int
    ) -> None:
        super().__init__()
        self._progress, self._settings, self._course = progress, settings, course
        self._units, self._first, self._kept = units, first, kept

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """`batch` counts from 0 within the epoch; the loss in `logs` is the epoch's mean so far."""
        if logs and not math.isfinite(float(logs["loss"])):
            raise _diverged(self._settings, self._course, "loss", self._first + batch + 1, self._kept)
        self._progress.advance(self._units)


def _finite(weight: NDArray[Any]) -> bool:
    return bool(np.isfinite(weight).all())


def _diverged(settings: Train, course: Training, what: str, step: int, kept: int) -> MemeloomError:
    where = f"{settings.output} keeps the state of step {kept}" if kept else "nothing was kept"
    key = f"train.{settings.model.replace('-', '_')}.learning_rate"
    return MemeloomError(
        f"the {what} is not a number after step {step}; {where}; set train.restart and lower {key}"
        f" ({course.learning_rate})"
    )


def _compile(lesson: Lesson, course: Training) -> None:
    optimizer = lesson.optimizer(course.learning_rate)
    for model in dict.fromkeys((lesson.trainee, lesson.checked)):
        model.compile(
            optimizer=optimizer if model is lesson.trainee else None,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=lesson.logits),
            weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
            jit_compile=lesson.compiled,
        )
    optimizer.build(lesson.trainee.trainable_variables)


def _weights(lesson: Lesson) -> list[NDArray[Any]]:
    return [weight for network in lesson.captioner.networks.values() for weight in network.get_weights()]


def _variables(lesson: Lesson) -> list[Any]:
    """What a training is made of: weights and random generators of the networks, and the optimizer."""
    networks = lesson.captioner.networks.values()
    return [*(variable for network in networks for variable in network.variables), *lesson.trainee.optimizer.variables]


def _identity(settings: Train, course: Training, dataset: Dataset) -> dict[str, Any]:
    """What the course of a training depends on; the other settings may change when it goes on."""
    return {
        "model": settings.model,
        "seed": settings.seed,
        **course.model_dump(mode="json"),
        "dataset": [shard.sha256 for shard in dataset.manifest.shards],
        "vocabulary": list(dataset.alphabet.characters),
    }


def _write_history(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    write_text(folder / "history.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in history))
    table = io.StringIO()
    columns = [name for name in history[0] if name != "samples"]
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(folder / "history.csv", table.getvalue())
