"""A batch made ready for devices: with a weight for every label, and in a size that can be divided among them."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.contract import Batch, TrainingTask


class PaddedBatch(NamedTuple):
    """The batch of all devices together.

    inputs: arrays (rows, …), one or nested. labels: int (rows,) or (rows, length).
    weights: of the labels, float32, in their shape. share: 1 / their sum, float32 ().
    """

    inputs: Any
    labels: NDArray[Any]
    weights: NDArray[np.float32]
    share: NDArray[np.float32]

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return 1 / float(self.share)


def whole(batch: Batch, rows: int, devices: int) -> PaddedBatch:
    """`batch` filled up to `rows` rows, and on to a multiple of `devices`, with copies of its last that weigh nothing.

    So the devices get parts of one size, and a last batch that is smaller needs no compiled step of its own.
    """
    inputs, labels, *given = batch
    weights = np.asarray(given[0] if given else np.ones(labels.shape), np.float32)
    share = np.asarray(1 / max(float(weights.sum(dtype=np.float64)), 1e-9), np.float32)
    missing = -(-max(rows, len(labels)) // devices) * devices - len(labels)
    if not missing:
        return PaddedBatch(inputs, labels, weights, share)

    def filled(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])

    nothing = np.zeros((missing, *weights.shape[1:]), np.float32)
    return PaddedBatch(
        keras.tree.map_structure(filled, inputs), filled(labels), np.concatenate([weights, nothing]), share
    )


def judged(task: TrainingTask, predicted: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
    """What these rows add to the mean cross-entropy, in nats, and to the share of right first choices; float32 ()."""
    ops = keras.ops
    predicted = ops.cast(predicted, "float32")
    losses = keras.losses.sparse_categorical_crossentropy(labels, predicted, from_logits=task.logits)
    right = ops.cast(ops.equal(ops.cast(ops.argmax(predicted, axis=-1), "int32"), ops.cast(labels, "int32")), "float32")
    return ops.sum(losses * weights) * share, ops.sum(right * weights) * share


_AHEAD = 3


class Feed:
    """The batches of steps `first`, `first` + 1, … `stop` - 1, in this order. Use it as a context manager.

    waited: seconds that `take` has spent waiting for a batch. A device works on while the host waits, if steps were
    sent to it before; so it stood still for at most that long.
    """

    def __init__(self, batch: Callable[[int], Batch], first: int, stop: int) -> None:
        self._batch, self._next, self._stop = batch, first, stop
        self._maker = ThreadPoolExecutor(1, "batches")
        self._ready: deque[Future[Batch]] = deque()
        self.waited = 0.0

    def take(self) -> Batch:
        """The next batch. Raises what making it raised, and IndexError behind the last."""
        self._order()
        ready = self._ready.popleft()
        began = time.perf_counter()
        batch = ready.result()
        self.waited += time.perf_counter() - began
        self._order()
        return batch

    def _order(self) -> None:
        while len(self._ready) < _AHEAD and self._next < self._stop:
            self._ready.append(self._maker.submit(self._batch, self._next))
            self._next += 1

    def __enter__(self) -> Self:
        """Begin to make batches."""
        self._order()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make no more."""
        self._maker.shutdown(cancel_futures=True)
