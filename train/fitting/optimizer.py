"""The learning rate as a function of the step, which the optimizer counts and a checkpoint keeps."""

import math
from typing import Any

from memeloom.configs.schema import Training
from memeloom.train.backend import keras


class _WarmCosine(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # keras has no types
    """Grows in a line over the first `warmup` steps; then stays, or falls to nothing at step `end` as a half cosine.

    The cosine is the one of Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017,
    without restarts.
    """

    def __init__(self, peak: float, warmup: int, end: int | None) -> None:
        super().__init__()
        self._peak, self._warmup, self._end = peak, warmup, end

    def __call__(self, step: Any) -> Any:
        ops = keras.ops
        step = ops.cast(step, "float32")
        rate = ops.full_like(step, self._peak)
        if self._end is not None:
            gone = (step - self._warmup) / max(self._end - self._warmup, 1)
            rate = self._peak / 2 * (1 + ops.cos(math.pi * ops.clip(gone, 0.0, 1.0)))
        if self._warmup:
            # The first step learns something, too.
            rate = ops.where(step < self._warmup, self._peak * (step + 1) / self._warmup, rate)
        return rate


def learning_rate(course: Training, steps: int) -> Any:
    """What an optimizer takes as the learning rate of a training of `steps` steps: a number, or a schedule."""
    if course.schedule == "constant" and not course.warmup_steps:
        return course.learning_rate
    return _WarmCosine(course.learning_rate, course.warmup_steps, steps if course.schedule == "cosine" else None)


def rate_at(rate: Any, step: int) -> float:
    """What `rate`, of `learning_rate`, is at `step`, counted from 0."""
    return float(keras.ops.convert_to_numpy(rate(step))) if callable(rate) else float(rate)
