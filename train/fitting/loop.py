"""The training loop, with throughput and checks for non-finite losses."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import Feed, pad_batch
from memeloom.train.fitting.devices import Devices, Steps

# Steps queued on the device before the oldest result is read.
_IN_FLIGHT = 4
# With 16-bit floats a loss may overflow; the optimizer skips such a step and lowers its scale.
_MAX_OVERFLOWS = 16


class NonFinite(Exception):
    """A loss or a weight is non-finite after `step`, counted from 1."""

    def __init__(self, step: int, what: str = "the loss") -> None:
        super().__init__(f"{what} is not a number after step {step}")


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Mean loss and accuracy before each update, and timings.

    first_seconds: time of the first step, including compilation at the beginning of a run. waited: seconds spent
    waiting for batches.
    """

    loss: float
    accuracy: float
    steps: int
    seconds: float
    first_seconds: float
    waited: float

    def steps_per_second(self, *, without_first: bool) -> float:
        """Return the rate; `without_first` excludes the first step if there are others."""
        if without_first and self.steps > 1:
            return (self.steps - 1) / max(self.seconds - self.first_seconds, 1e-9)
        return self.steps / max(self.seconds, 1e-9)


class TrainingLoop:
    """Runs a feed's batches through the steps of a task.

    on_step: called with loss and accuracy after each step; the first call comes when everything is compiled.
    may_overflow: True allows a few non-finite losses in a row.
    """

    def __init__(
        self, steps: Steps, feed: Feed, devices: Devices, on_step: Callable[[float, float], None], *, may_overflow: bool
    ) -> None:
        self._steps, self._feed, self._devices, self._on_step = steps, feed, devices, on_step
        self._max_overflows = _MAX_OVERFLOWS if may_overflow else 0
        self._overflows = 0

    def run(self, steps: range) -> EpochResult:
        """Train on the feed's next batches, which are those of `steps`.

        Raises:
            NonFinite: a loss is non-finite.
            MemeloomError: a batch cannot be divided among the devices.
        """
        started, waited = time.perf_counter(), self._feed.waited
        first_seconds = 0.0
        pending: deque[tuple[int, Any, Any]] = deque()
        losses: list[float] = []
        accuracies: list[float] = []

        def read_oldest() -> None:
            number, *found = pending.popleft()
            loss, accuracy = map(float, found)
            if self._counts(loss, number):
                losses.append(loss)
                accuracies.append(accuracy)
            self._on_step(loss, accuracy)

        for step in steps:
            batch = self._feed.take()
            if len(batch[1]) % self._devices.count:
                # Padding rows would count in batch normalisation, and results would differ from one device's.
                raise MemeloomError(
                    f"a batch of {len(batch[1])} rows cannot be divided among {self._devices.count} devices; "
                    "change the batch of the model, or train.devices"
                )
            padded = pad_batch(batch, 0, self._devices.count)
            pending.append((step + 1, *self._steps.train(padded)))
            if step == steps.start:
                read_oldest()
                first_seconds = time.perf_counter() - started
            elif len(pending) > _IN_FLIGHT:
                read_oldest()
        while pending:
            read_oldest()
        self._steps.sync()
        return EpochResult(
            loss=math.fsum(losses) / max(len(losses), 1),
            accuracy=math.fsum(accuracies) / max(len(accuracies), 1),
            steps=len(steps),
            seconds=time.perf_counter() - started,
            first_seconds=first_seconds,
            waited=self._feed.waited - waited,
        )

    def _counts(self, loss: float, step: int) -> bool:
        if math.isfinite(loss):
            self._overflows = 0
            return True
        self._overflows += 1
        if self._overflows > self._max_overflows:
            raise NonFinite(step)
        return False


def validate(task: TrainingTask, steps: Steps, devices: Devices) -> tuple[float, float]:
    """Return weighted mean loss and accuracy over all validation batches."""
    loss = accuracy = weight = 0.0
    rows = 0
    for number in range(task.validation_batches):
        batch = pad_batch(task.validation_batch(number), rows, devices.count)
        rows = rows or len(batch.labels)
        batch_loss, batch_accuracy = steps.validate(batch)
        loss += float(batch_loss) * batch.weight
        accuracy += float(batch_accuracy) * batch.weight
        weight += batch.weight
    return loss / weight, accuracy / weight
