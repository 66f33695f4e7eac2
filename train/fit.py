"""The stage that trains the captioning network."""

import csv
import io
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.errors import MemeloomError
from configs.outputs import write_text
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config, Train
from dataset.manifest import Manifest, read_manifest
from dataset.vocabulary import read_vocabulary
from train.backend import keras, tf, xla_pays
from train.characters import Alphabet
from train.checkpoint import CHECKPOINT, Position, restore_checkpoint, save_checkpoint
from train.convnet import build_convnet
from train.decode import write_captions
from train.model_folder import CARD, CaptionModel, write_model
from train.pipeline import example_batches, one_pass, read_captions

# Settings that the course of a training depends on; the others may change when it goes on.
_COURSE = ("filters", "embedding", "sequence_length", "dropout", "batch", "learning_rate", "seed")
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
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise MemeloomError(
            f"out of memory with train.batch={settings.batch} and train.filters={settings.filters}; lower one of them"
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
        self._learn, self._check = (read_captions(data, manifest, split, alphabet) for split in ("train", "validation"))
        self._seconds["read"] = time.perf_counter() - self._began
        self._model = CaptionModel(
            _compiled(self._settings, alphabet), alphabet, manifest.templates, manifest.separator
        )
        self._position = self._restored(_identity(self._settings, manifest, alphabet))
        self._first_step = self._position.step

    def run(self) -> Summary:
        settings, position = self._settings, self._position
        self._progress.start("train", max(settings.steps - position.step, 0) * settings.batch, "examples")
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
        return restore_checkpoint(self._folder, self._model.network, identity)

    def _epoch(self, steps: range) -> None:
        """Train `steps`, validate, and keep what came of it."""
        began = time.perf_counter()
        learned = self._fit(steps)
        trained = time.perf_counter()
        row: dict[str, Any] = {
            "epoch": len(self._position.history) + 1,
            "step": steps.stop,
            "examples": steps.stop * self._settings.batch,
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
            write_model(self._folder, self._model, row, self._config)
        # After the model: a run that dies in between repeats the epoch and writes the same model again.
        save_checkpoint(self._folder, self._model.network, position)
        _write_history(self._folder, position.history)

    def _fit(self, steps: range) -> dict[str, float]:
        settings = self._settings
        batches = example_batches(
            self._learn,
            sequence_length=settings.sequence_length,
            batch=settings.batch,
            seed=settings.seed,
            steps=steps,
        )
        watch = _Watch(self._progress, settings, steps.start, self._position.step)
        fitted = self._model.network.fit(batches, verbose=0, shuffle=False, callbacks=[watch])
        return {name: float(fitted.history[name][-1]) for name in ("loss", "accuracy")}

    def _validate(self, step: int) -> dict[str, float]:
        settings = self._settings
        examples = one_pass(
            self._check,
            sequence_length=settings.sequence_length,
            batch=settings.batch,
            seed=settings.seed,
            batches=settings.validation_batches,
        )
        found = self._model.network.evaluate(examples, verbose=0, return_dict=True)
        # Some kernels take NaN for nought, so that dead weights do not show in the loss.
        if not math.isfinite(found["loss"]) or not all(map(_finite, self._model.network.get_weights())):
            raise _diverged(settings, "validation loss or a weight", step, self._position.step)
        return {f"validation_{name}": float(found[name]) for name in ("loss", "accuracy")}

    def _samples(self, step: int) -> list[str]:
        """Captions of the network as it is, for the history."""
        templates = self._model.templates[: self._settings.samples_per_epoch]
        written = write_captions(
            self._model,
            templates,
            start="",
            min_score=_SAMPLE_MIN_SCORE,
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
                "examples": steps * self._settings.batch,
                "captions": len(self._learn.templates),
                "validation_captions": len(self._check.templates),
                "parameters": self._model.network.count_params(),
                "best_step": best["step"],
                "validation_loss": round(best["validation_loss"], 4),
                "validation_accuracy": round(best["validation_accuracy"], 4),
            },
            outputs={"model": str(self._folder), "history": str(self._folder / "history.csv")},
            seconds={**self._seconds, "total": time.perf_counter() - self._began},
        )


class _Watch(keras.callbacks.Callback):  # type: ignore[misc]  # keras has no types
    """Tells the progress about every step, and stops at the first loss that is not a number."""

    def __init__(self, progress: Progress, settings: Train, first: int, kept: int) -> None:
        super().__init__()
        self._progress, self._settings, self._first, self._kept = progress, settings, first, kept

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """`batch` counts from 0 within the epoch; the loss in `logs` is the epoch's mean so far."""
        if logs and not math.isfinite(float(logs["loss"])):
            raise _diverged(self._settings, "loss", self._first + batch + 1, self._kept)
        self._progress.advance(self._settings.batch)


def _finite(weight: NDArray[Any]) -> bool:
    return bool(np.isfinite(weight).all())


def _diverged(settings: Train, what: str, step: int, kept: int) -> MemeloomError:
    where = f"{settings.output} keeps the state of step {kept}" if kept else "nothing was kept"
    return MemeloomError(
        f"the {what} is not a number after step {step}; {where}; set train.restart and lower"
        f" train.learning_rate ({settings.learning_rate})"
    )


def _compiled(settings: Train, alphabet: Alphabet) -> Any:
    network = build_convnet(
        len(alphabet),
        filters=settings.filters,
        embedding=settings.embedding,
        sequence_length=settings.sequence_length,
        dropout=settings.dropout,
        seed=settings.seed,
    )
    network.compile(
        optimizer=keras.optimizers.RMSprop(settings.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=xla_pays(),
    )
    network.optimizer.build(network.trainable_variables)
    return network


def _identity(settings: Train, manifest: Manifest, alphabet: Alphabet) -> dict[str, Any]:
    return {
        **{name: getattr(settings, name) for name in _COURSE},
        "dataset": [shard.sha256 for shard in manifest.shards],
        "vocabulary": list(alphabet.characters),
    }


def _write_history(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    write_text(folder / "history.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in history))
    table = io.StringIO()
    columns = [name for name in history[0] if name != "samples"]
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(folder / "history.csv", table.getvalue())
