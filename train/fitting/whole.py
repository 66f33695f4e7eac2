"""A batch made ready for devices: with a weight for every label, and in a size that can be divided among them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.train.backend import keras
from memeloom.train.contract import Batch, Lesson


class Whole(NamedTuple):
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


def whole(batch: Batch, rows: int, devices: int) -> Whole:
    """`batch` filled up to `rows` rows, and on to a multiple of `devices`, with copies of its last that weigh nothing.

    So the devices get parts of one size, and a last batch that is smaller needs no compiled step of its own.
    """
    inputs, labels, *given = batch
    weights = np.asarray(given[0] if given else np.ones(labels.shape), np.float32)
    share = np.asarray(1 / max(float(weights.sum(dtype=np.float64)), 1e-9), np.float32)
    missing = -(-max(rows, len(labels)) // devices) * devices - len(labels)
    if not missing:
        return Whole(inputs, labels, weights, share)

    def filled(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])

    nothing = np.zeros((missing, *weights.shape[1:]), np.float32)
    return Whole(keras.tree.map_structure(filled, inputs), filled(labels), np.concatenate([weights, nothing]), share)


def judged(lesson: Lesson, predicted: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
    """What these rows add to the mean cross-entropy, in nats, and to the share of right first choices; float32 ()."""
    ops = keras.ops
    predicted = ops.cast(predicted, "float32")
    losses = keras.losses.sparse_categorical_crossentropy(labels, predicted, from_logits=lesson.logits)
    right = ops.cast(ops.equal(ops.cast(ops.argmax(predicted, axis=-1), "int32"), ops.cast(labels, "int32")), "float32")
    return ops.sum(losses * weights) * share, ops.sum(right * weights) * share
