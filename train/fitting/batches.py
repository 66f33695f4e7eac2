"""Padded, weighted batches for devices, prepared ahead in a thread."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.contract import Batch, TrainingTask

_AHEAD = 3


class PaddedBatch(NamedTuple):
    """A padded, weighted batch for all devices together.

    inputs: arrays (rows, …), one or nested. labels: int (rows,) or (rows, length).
    weights: of the labels, float32, same shape. share: 1 / sum of the weights, float32 ().
    """

    inputs: Any
    labels: NDArray[Any]
    weights: NDArray[np.float32]
    share: NDArray[np.float32]

    @property
    def weight(self) -> float:
        """Return the sum of the weights."""
        return 1 / float(self.share)


def pad_batch(batch: Batch, rows: int, devices: int) -> PaddedBatch:
    """Pad `batch` to `rows` rows, and on to a multiple of `devices`, with copies of its last row of weight zero.

    Devices then get equal parts, and a smaller last batch needs no compilation of its own.
    """
    inputs, labels, *given = batch
    weights = np.asarray(given[0] if given else np.ones(labels.shape), np.float32)
    share = np.asarray(1 / max(float(weights.sum(dtype=np.float64)), 1e-9), np.float32)
    missing = -(-max(rows, len(labels)) // devices) * devices - len(labels)
    if not missing:
        return PaddedBatch(inputs, labels, weights, share)

    def padded(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])

    weights = np.concatenate([weights, np.zeros((missing, *weights.shape[1:]), np.float32)])
    return PaddedBatch(keras.tree.map_structure(padded, inputs), padded(labels), weights, share)


def loss_and_accuracy(task: TrainingTask, predicted: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
    """Return these rows' terms of the mean cross-entropy, in nats, and of the accuracy; both float32 ()."""
    ops = keras.ops
    predicted = ops.cast(predicted, "float32")
    losses = keras.losses.sparse_categorical_crossentropy(labels, predicted, from_logits=task.from_logits)
    right = ops.cast(ops.equal(ops.cast(ops.argmax(predicted, axis=-1), "int32"), ops.cast(labels, "int32")), "float32")
    return ops.sum(losses * weights) * share, ops.sum(right * weights) * share


class Feed:
    """Prepares the batches of steps `first` … `stop` - 1 ahead in a thread. A context manager.

    waited: seconds that `take` spent waiting for a batch; an upper bound of idle time, as the device works through
    queued steps meanwhile.
    """

    def __init__(self, batch: Callable[[int], Batch], first: int, stop: int) -> None:
        self._batch, self._next, self._stop = batch, first, stop
        self._thread = ThreadPoolExecutor(1, "batches")
        self._ready: deque[Future[Batch]] = deque()
        self.waited = 0.0

    def take(self) -> Batch:
        """Return the next batch. Raises errors of its preparation, and IndexError after the last."""
        self._submit()
        ready = self._ready.popleft()
        started = time.perf_counter()
        batch = ready.result()
        self.waited += time.perf_counter() - started
        self._submit()
        return batch

    def _submit(self) -> None:
        while len(self._ready) < _AHEAD and self._next < self._stop:
            self._ready.append(self._thread.submit(self._batch, self._next))
            self._next += 1

    def __enter__(self) -> Self:
        self._submit()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)
