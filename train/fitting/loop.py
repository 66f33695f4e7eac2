"""A stretch of a training: step after step, watched for numbers that are none, and measured."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from memeloom.configs.errors import MemeloomError
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import Feed, whole
from memeloom.train.fitting.devices import Devices, Steps

# Steps that are sent to the device before the result of the first of them is looked at.
_IN_FLIGHT = 4
# With 16-bit floats a loss may overflow once; the optimizer leaves such a step out, and scales less.
_OVERFLOWS = 16


class NonFinite(Exception):
    """Something that should be one is not. step: after which, the first is 1. what: such as the loss."""

    def __init__(self, step: int, what: str = "the loss") -> None:
        super().__init__(f"{what} is not a number after step {step}")


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What a stretch of steps gave: mean loss and accuracy before each step, and where the time went.

    seconds: in all. first_seconds: of the first step, in which everything is compiled if it is the first of a run.
    waited: seconds without a batch.
    """

    loss: float
    accuracy: float
    steps: int
    seconds: float
    first_seconds: float
    waited: float

    def rate(self, *, compiled: bool) -> float:
        """Steps a second; without the first, if it `compiled` and there are others."""
        if compiled and self.steps > 1:
            return (self.steps - 1) / max(self.seconds - self.first_seconds, 1e-9)
        return self.steps / max(self.seconds, 1e-9)


class _Flying(NamedTuple):
    step: int
    loss: Any
    right: Any


class TrainingLoop:
    """Takes batches from a feed through the steps of a task.

    advance: called when a step is done; the first one says so only when everything is compiled.
    may_overflow: whether a few losses in a row may be no numbers.
    """

    def __init__(
        self, steps: Steps, feed: Feed, devices: Devices, advance: Callable[[int], None], *, may_overflow: bool
    ) -> None:
        self._steps, self._feed, self._devices, self._advance = steps, feed, devices, advance
        self._most_overflows = _OVERFLOWS if may_overflow else 0
        self._overflows = 0

    def run(self, steps: range) -> EpochResult:
        """Learn from the next batches of the feed, which are those of `steps`.

        Raises:
            NonFinite: a loss is not a number.
        """
        began, waited = time.perf_counter(), self._feed.waited
        first_seconds = 0.0
        flying: deque[_Flying] = deque()
        losses: list[float] = []
        rights: list[float] = []

        def land() -> None:
            landed = flying.popleft()
            loss = float(landed.loss)
            if self._counts(loss, landed.step):
                losses.append(loss)
                rights.append(float(landed.right))
            self._advance(landed.step)

        for step in steps:
            given = self._feed.take()
            if len(given[1]) % self._devices.count:
                # Rows that fill it up would count in batch normalisation: another course than on one device.
                raise MemeloomError(
                    f"a batch of {len(given[1])} rows cannot be divided among {self._devices.count} devices; "
                    "change the batch of the model, or train.devices"
                )
            batch = whole(given, 0, self._devices.count)
            flying.append(_Flying(step + 1, *self._steps.learn(batch)))
            if step == steps.start:
                land()
                first_seconds = time.perf_counter() - began
            elif len(flying) > _IN_FLIGHT:
                land()
        while flying:
            land()
        self._steps.settle()
        return EpochResult(
            loss=math.fsum(losses) / max(len(losses), 1),
            accuracy=math.fsum(rights) / max(len(rights), 1),
            steps=len(steps),
            seconds=time.perf_counter() - began,
            first_seconds=first_seconds,
            waited=self._feed.waited - waited,
        )

    def _counts(self, loss: float, step: int) -> bool:
        if math.isfinite(loss):
            self._overflows = 0
            return True
        self._overflows += 1
        if self._overflows > self._most_overflows:
            raise NonFinite(step)
        return False


def validate(task: TrainingTask, steps: Steps, devices: Devices) -> tuple[float, float]:
    """Mean loss and accuracy over all batches of `task.check`, every label by its weight."""
    loss = right = weight = 0.0
    rows = 0
    for number in range(task.checks):
        batch = whole(task.check(number), rows, devices.count)
        rows = rows or len(batch.labels)
        part_loss, part_right = steps.check(batch)
        loss += float(part_loss) * batch.weight
        right += float(part_right) * batch.weight
        weight += batch.weight
    return loss / weight, right / weight
