"""The compiled steps of a task on TensorFlow, on the devices of a `tf.distribute` strategy."""

from typing import Any

import tensorflow as tf

from memeloom.train.backend import keras
from memeloom.train.contract import Table, TrainingTask
from memeloom.train.fitting.batches import PaddedBatch, judged


class TensorFlowSteps:
    """See `train.fitting.devices.Steps`.

    Every device makes the gradients of its rows; their sum is applied on all of them. Several devices run without XLA,
    which cannot compile what goes on between them.
    """

    def __init__(self, task: TrainingTask, optimizer: Any, clip_norm: float | None, strategy: Any) -> None:
        self._task, self._optimizer, self._strategy = task, optimizer, strategy
        self._devices: int = strategy.num_replicas_in_sync
        scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # Both look at the gradients before the optimizer sums them up, and must see the sum.
        self._sum_first = self._devices > 1 and (clip_norm is not None or scales)
        if clip_norm is not None:
            # The optimizer gets a share of the sum from each device: clipped to a share, the sum is clipped.
            inner = optimizer.inner_optimizer if scales else optimizer
            inner.global_clipnorm = clip_norm / self._devices
        if self._devices > 1:
            for network in (task.training_model, *task.captioner.networks.values()):
                _normalise_together(network)
        xla = task.compiled and self._devices == 1
        self._learn = tf.function(lambda *part: self._everywhere(self._learn_here, part), jit_compile=xla)
        self._check = tf.function(lambda *part: self._everywhere(self._check_here, part), jit_compile=xla)

    def learn(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """As `Steps`."""
        found: tuple[Any, Any] = self._learn(*self._spread(batch))
        return found

    def check(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """As `Steps`."""
        found: tuple[Any, Any] = self._check(*self._spread(batch))
        return found

    def settle(self) -> None:
        """As `Steps`; TensorFlow's variables are always up to date."""

    def _spread(self, batch: PaddedBatch) -> PaddedBatch:
        """Each device's rows to it."""
        if self._devices == 1:
            return batch
        rows = len(batch.labels) // self._devices

        def spread(values: Any) -> Any:
            def part(device: Any) -> Any:
                first = device.replica_id_in_sync_group * rows
                return tf.constant(values[first : first + rows])

            return self._strategy.experimental_distribute_values_from_function(part)

        inputs, labels, weights = keras.tree.map_structure(spread, (batch.inputs, batch.labels, batch.weights))
        return PaddedBatch(inputs, labels, weights, batch.share)

    def _everywhere(self, work: Any, part: Any) -> tuple[Any, Any]:
        if self._devices == 1:
            loss, right = work(*part)
        else:
            loss, right = (self._strategy.reduce("SUM", each, None) for each in self._strategy.run(work, args=part))
        return loss, right

    def _learn_here(self, inputs: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
        variables = self._task.training_model.trainable_variables
        table, rows, vectors = self._task.table, None, []
        if table is not None:
            rows, *others = inputs
            vectors = [table(rows)]
            inputs = (*vectors, *others)
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            predicted = self._task.training_model(inputs, training=True)
            loss, right = judged(self._task, predicted, labels, weights, share)
            scaled = self._optimizer.scale_loss(loss)
        gradients, slopes = tape.gradient(scaled, (variables, vectors))
        if table is not None:
            self._learn_table(table, rows, slopes[0] / (self._optimizer.scale_loss(share)))
        if self._sum_first:
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            total = tf.distribute.get_replica_context().all_reduce("SUM", dense)
            gradients = [gradient / self._devices for gradient in total]
        self._optimizer.apply(gradients, variables)
        return loss, right

    def _learn_table(self, table: Table, rows: Any, slopes: Any) -> None:
        """Learn the vectors of `rows`. slopes: of the sum of the losses."""
        rows, slopes = tf.reshape(rows, [-1]), tf.reshape(slopes, [-1, table.width])
        if self._devices > 1:
            replica = tf.distribute.get_replica_context()
            rows, slopes = replica.all_gather(rows, 0), replica.all_gather(slopes, 0)
        # With 16-bit floats some are no numbers once in a while; the optimizer leaves such a step out, too.
        learned = tf.reduce_all(tf.math.is_finite(slopes)) & (rows != table.nothing)
        slopes = tf.where(learned[:, tf.newaxis], slopes, 0.0)
        table.squares.value.scatter_add(tf.IndexedSlices(tf.reduce_mean(slopes * slopes, axis=1), rows))
        rate = table.rate * tf.cast(self._optimizer.learning_rate, tf.float32)
        scale = rate * tf.math.rsqrt(tf.gather(table.squares.value, rows) + table.small)
        table.vectors.value.scatter_sub(tf.IndexedSlices(slopes * scale[:, tf.newaxis], rows))

    def _check_here(self, inputs: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
        return judged(self._task, self._task.checked(inputs, training=False), labels, weights, share)


def _normalise_together(model: Any) -> None:
    """Let batch normalisation take its statistics over the rows of all devices, as it does on one."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
        elif isinstance(layer, keras.Model):
            _normalise_together(layer)
