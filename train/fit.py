"""The stage that trains a captioning model, of whichever kind."""

import hashlib
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary, commit
from memeloom.configs.schema import Config, Train, Training
from memeloom.train.backend import BACKEND, is_out_of_memory, keras
from memeloom.train.checkpoint import CHECKPOINT, Position, restore_checkpoint, save_checkpoint
from memeloom.train.contract import Captioner, TrainingTask, open_kind
from memeloom.train.corpus import Dataset, open_dataset
from memeloom.train.fitting.batches import Feed
from memeloom.train.fitting.devices import Devices, open_devices
from memeloom.train.fitting.history import TABLE, write_history
from memeloom.train.fitting.lock import locked
from memeloom.train.fitting.loop import EpochResult, NonFinite, TrainingLoop, validate
from memeloom.train.fitting.optimizer import learning_rate, rate_at
from memeloom.train.fitting.samples import choose_samples, write_samples
from memeloom.train.fitting.tensorboard import EventWriter
from memeloom.train.model_folder import CARD, write_model

EPOCHS = "epochs"
_INTERRUPTED = 130


class Interrupted(MemeloomError):
    """Whoever watched the training has stopped it."""

    exit_code = _INTERRUPTED


def train_model(config: Config, progress: Progress = SILENT) -> Summary:
    """Train a model on `train.dataset` for `train.steps` steps and leave the best in `train.output`.

    Goes on from the checkpoint in `train.output` if it is of the same model, dataset and schedule, and comes to the
    same curve as if it had never stopped. After each epoch: validation on captions that are never trained on, samples,
    the model folder if it is the best so far, a checkpoint, and the history. Ends early after `train.patience` epochs
    that were not better.

    Raises:
        NotADataset, DamagedRecords: no dataset, or a damaged one.
        ConfigError: `train.devices` is workers, and nothing says who they are.
        Interrupted: ctrl-C; the checkpoint of the last epoch stays.
        MemeloomError: no captions to train or validate on, another training in the folder, or one that runs there now,
            a loss that is not a number, or not enough memory.
    """
    settings = config.train
    # First of all: workers must meet before anything is computed, and kinds ask for devices when they are imported.
    devices = open_devices(settings.devices, settings.seed)
    section = f"train.{settings.model.replace('-', '_')}"
    course = open_kind(settings.model).course(settings)
    with ExitStack() as stack:
        if devices.chief:
            stack.enter_context(locked(Path(settings.output)))
        stack.enter_context(_precision(settings.precision))
        try:
            return _Training(config, course, devices, progress).run()
        except Exception as error:
            if is_out_of_memory(error):
                raise MemeloomError(
                    f"out of memory with {section}.batch={course.batch}; lower it, or make the network smaller "
                    f"({section})"
                ) from error
            raise


class _Training:
    """One run of the trainer: the data, the model, and where it stands."""

    def __init__(self, config: Config, course: Training, devices: Devices, progress: Progress) -> None:
        self._began = time.perf_counter()
        self._config, self._settings, self._course = config, config.train, course
        self._devices, self._progress = devices, progress
        self._folder = Path(config.train.output)
        self._dataset = open_dataset(Path(config.train.dataset))
        self._seconds = {"read": time.perf_counter() - self._began, "compile": 0.0, "train": 0.0, "validate": 0.0}
        with devices.scope():
            self._task = open_kind(self._settings.model).prepare(self._settings, self._dataset, progress)
            self._optimizer = _optimizer(self._task, course, self._settings)
        self._variables = _kept(self._task, self._optimizer)
        self._position = self._restored()
        self._first_step = self._position.step
        self._steps = devices.steps(self._task, self._optimizer, course.clip_norm)
        self._samples = choose_samples(self._dataset, self._task.captioner, self._settings.samples_per_epoch)
        self._events: EventWriter | None = None
        self._watched = False

    def run(self) -> Summary:
        if self._devices.chief:
            write_history(self._folder, self._position.history, self._task.unit)
        if not self._over:
            self._train()
        if self._devices.chief and not (self._folder / CARD).exists():
            raise MemeloomError(f"{self._folder}: the training is complete but its model is gone; set train.restart")
        return self._summary()

    @property
    def _over(self) -> bool:
        """Whether all steps are done, or the last epochs were in vain."""
        position, patience = self._position, self._settings.patience
        return position.step >= self._settings.steps or (patience is not None and position.vain >= patience)

    def _restored(self) -> Position:
        identity = _identity(self._settings, self._course, self._dataset, self._task.captioner)
        if not self._settings.restart:
            return restore_checkpoint(self._folder, self._variables, identity)
        if self._devices.chief:
            (self._folder / CHECKPOINT).unlink(missing_ok=True)
            shutil.rmtree(self._folder / EPOCHS, ignore_errors=True)
        return Position(identity)

    def _train(self) -> None:
        settings, task, position = self._settings, self._task, self._position
        if settings.tensorboard and self._devices.chief:
            self._events = EventWriter(self._folder, position.history)
        # Until the first step is compiled there is no rate to be told.
        self._progress.start("compile", None, "steps")
        with Feed(task.batch, position.step, settings.steps) as feed:
            loop = TrainingLoop(
                self._steps, feed, self._devices, self._advance, may_overflow=settings.precision == "mixed_float16"
            )
            while not self._over:
                epoch = position.step // settings.steps_per_epoch + 1
                steps = range(position.step, min(epoch * settings.steps_per_epoch, settings.steps))
                with self._told(steps):
                    self._epoch(loop, steps)
        self._progress.finish()

    def _advance(self, _: int) -> None:
        if not self._watched:
            self._watched = True
            left = self._settings.steps - self._position.step
            self._progress.start("train", left * self._task.units, self._task.unit)
        self._progress.advance(self._task.units)

    @contextmanager
    def _told(self, steps: range) -> Iterator[None]:
        """Say what became of the training if it stops within `steps`."""
        kept = f"{self._folder} keeps the state of step {steps.start}" if steps.start else "nothing was kept"
        try:
            yield
        except NonFinite as error:
            section = f"train.{self._settings.model.replace('-', '_')}"
            raise MemeloomError(
                f"{error}; {kept}; set train.restart and lower {section}.learning_rate ({self._course.learning_rate})"
            ) from None
        except KeyboardInterrupt:
            again = "go on with the same command" if steps.start else "begin again with the same command"
            raise Interrupted(f"interrupted in the steps {steps.start + 1} to {steps.stop}; {kept}; {again}") from None

    def _epoch(self, loop: TrainingLoop, steps: range) -> None:
        """Train `steps`, validate, and keep what came of it."""
        learned = loop.run(steps)
        trained = time.perf_counter()
        loss, accuracy = self._validated(steps.stop)
        row = self._row(steps, learned, {"validation_loss": loss, "validation_accuracy": accuracy})
        self._seconds["train"] += learned.seconds
        self._seconds["validate"] += time.perf_counter() - trained
        if steps.start == self._first_step:
            self._seconds["compile"] = learned.first_seconds
        position = self._position
        position.step = steps.stop
        position.history.append(row)
        better = position.best is None or loss < position.best
        position.vain = 0 if better else position.vain + 1
        position.best = loss if better else position.best
        if self._devices.chief:
            self._keep(row, better=better)

    def _validated(self, step: int) -> tuple[float, float]:
        loss, accuracy = validate(self._task, self._steps, self._devices)
        # Some kernels take NaN for nought, so that dead weights do not show in the loss.
        if not math.isfinite(loss):
            raise NonFinite(step, "the validation loss")
        if not all(map(_finite, _weights(self._task))):
            raise NonFinite(step, "a weight")
        return loss, accuracy

    def _row(self, steps: range, learned: EpochResult, validated: Mapping[str, float]) -> dict[str, Any]:
        """The epoch as the history tells it."""
        task, settings, samples = self._task, self._settings, self._samples
        written = {
            name: write_samples(task.captioner, prompts, settings.seed, steps.stop)
            for name, prompts in (("samples", samples.learned), ("unseen", samples.unseen))
        }
        rate = learned.rate(compiled=steps.start == self._first_step)
        return {
            "epoch": len(self._position.history) + 1,
            "step": steps.stop,
            task.unit: steps.stop * task.units,
            "loss": learned.loss,
            "accuracy": learned.accuracy,
            **validated,
            "learning_rate": rate_at(learning_rate(self._course, settings.steps), steps.stop - 1),
            "seconds": round(learned.seconds, 3),
            f"{task.unit}_per_second": round(rate * task.units, 1),
            "waiting": round(learned.waited / learned.seconds, 4),
            **written,
            "unseen_by": samples.by,
        }

    def _keep(self, row: Mapping[str, Any], *, better: bool) -> None:
        """Write the models that are due, then the checkpoint: a run that dies in between repeats the epoch."""
        position, task, every = self._position, self._task, self._settings.keep_every
        metrics = {
            **row,
            "train_seconds": round(sum(each["seconds"] for each in position.history), 3),
            "device": self._devices.kind,
            "devices": self._devices.count,
            "backend": BACKEND,
            "dataset": self._dataset.manifest.digest,
            "commit": commit(),
        }
        # A kill, or ctrl-C, between two models leaves none; the same epoch need not be better on the same device.
        if better or not (self._folder / CARD).exists():
            write_model(self._folder, task.captioner, metrics, self._config)
        if every is not None and row["epoch"] % every == 0:
            write_model(self._folder / EPOCHS / f"{row['epoch']:04}", task.captioner, metrics, self._config)
        save_checkpoint(self._folder, self._variables, position)
        write_history(self._folder, position.history, task.unit)
        if self._events is not None:
            self._events.add(row)

    def _summary(self) -> Summary:
        position = self._position
        best = min(position.history, key=lambda row: row["validation_loss"])
        steps = position.step - self._first_step
        return Summary(
            "train",
            counts={
                "steps": steps,
                self._task.unit: steps * self._task.units,
                "captions": len(self._dataset.train),
                "validation_captions": len(self._dataset.validation),
                "parameters": sum(network.count_params() for network in self._task.captioner.networks.values()),
                "devices": self._devices.count,
                "best_step": best["step"],
                "validation_loss": round(best["validation_loss"], 4),
                "validation_accuracy": round(best["validation_accuracy"], 4),
            },
            outputs={"model": str(self._folder), "history": str(self._folder / TABLE)},
            seconds={**self._seconds, "total": time.perf_counter() - self._began},
        )


@contextmanager
def _precision(policy: str) -> Iterator[None]:
    """What models compute in that are made meanwhile."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _optimizer(task: TrainingTask, course: Training, settings: Train) -> Any:
    optimizer = task.optimizer(learning_rate(course, settings.steps))
    if settings.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(task.training_model.trainable_variables)
    return optimizer


def _finite(weight: NDArray[Any]) -> bool:
    return bool(np.isfinite(weight).all())


def _weights(task: TrainingTask) -> list[NDArray[Any]]:
    return [weight for network in task.captioner.networks.values() for weight in network.get_weights()]


def _kept(task: TrainingTask, optimizer: Any) -> list[Any]:
    """What a training is made of: weights and random generators of the networks, what learns beside, the optimizer.

    What the training_model holds besides is data.
    """
    networks = [
        variable
        for network in task.captioner.networks.values()
        # One that learns nothing, such as an encoder of pictures, is made anew as it was.
        if network.trainable_variables
        for variable in network.variables
    ]
    known = {id(variable) for network in task.captioner.networks.values() for variable in network.variables}
    beside = [
        variable
        for variable in task.training_model.variables
        if id(variable) not in known and (variable.trainable or variable.name == "seed_generator_state")
    ]
    return [*networks, *beside, *optimizer.variables]


def _identity(settings: Train, course: Training, dataset: Dataset, model: Captioner) -> dict[str, Any]:
    """What the course of a training depends on; the other settings may change when it goes on."""
    return {
        "model": settings.model,
        "backend": BACKEND,
        "precision": settings.precision,
        "seed": settings.seed,
        **course.model_dump(mode="json"),
        **({"pictures": settings.pictures.model_dump(exclude={"vectors"})} if model.uses_pictures else {}),
        # Whatever the settings call them, other weights see something else.
        **{name: _digest(network) for name, network in model.networks.items() if not network.trainable_variables},
        # The cosine ends at the last step.
        **({"steps": settings.steps} if course.schedule == "cosine" else {}),
        "dataset": [file.sha256 for file in dataset.manifest.files],
    }


def _digest(network: Any) -> str:
    """Of the weights, in hex."""
    digest = hashlib.sha256()
    for weight in network.get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()[:16]
