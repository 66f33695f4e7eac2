"""The compiled steps of a task on TensorFlow, with a `tf.distribute` strategy."""

from typing import Any

import tensorflow as tf

from memeloom.train.backend import keras
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import PaddedBatch, loss_and_accuracy


class TensorFlowSteps:
    """Implements `memeloom.train.fitting.devices.Steps`.

    Each device computes the gradients of its rows; their sum is applied on all. Several devices run without XLA, which
    cannot compile the communication between them.
    """

    def __init__(self, task: TrainingTask, optimizer: Any, clip_norm: float | None, strategy: Any) -> None:
        self._task, self._optimizer, self._strategy = task, optimizer, strategy
        self._devices: int = strategy.num_replicas_in_sync
        scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # Clipping and loss scaling see the gradients before the optimizer sums them, and need the sum.
        self._sum_first = self._devices > 1 and (clip_norm is not None or scales)
        if clip_norm is not None:
            # The optimizer receives a share of the sum from each device: clipping the shares clips the sum.
            inner = optimizer.inner_optimizer if scales else optimizer
            inner.global_clipnorm = clip_norm / self._devices
        if self._devices > 1:
            for network in (task.training_model, *task.captioner.networks.values()):
                _synchronize_batch_norm(network)
        xla = task.jit_compile and self._devices == 1
        # The steps branch on no tensor: there is nothing to convert, and reading the sources of Keras takes seconds.
        given = {"jit_compile": xla, "autograph": False}
        self._train = tf.function(lambda *part: self._on_all(self._train_step, part), **given)
        self._validate = tf.function(lambda *part: self._on_all(self._validation_step, part), **given)

    def train(self, batch: PaddedBatch) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._train(*self._distributed(batch))
        return found

    def validate(self, batch: PaddedBatch) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._validate(*self._distributed(batch))
        return found

    def sync(self) -> None:
        pass  # TensorFlow's variables are always up to date

    def _distributed(self, batch: PaddedBatch) -> PaddedBatch:
        if self._devices == 1:
            return batch
        rows = len(batch.labels) // self._devices

        def distribute(values: Any) -> Any:
            def part(device: Any) -> Any:
                first = device.replica_id_in_sync_group * rows
                return tf.constant(values[first : first + rows])

            return self._strategy.experimental_distribute_values_from_function(part)

        inputs, labels, weights = keras.tree.map_structure(distribute, (batch.inputs, batch.labels, batch.weights))
        return PaddedBatch(inputs, labels, weights, batch.share)

    def _on_all(self, step: Any, part: Any) -> tuple[Any, Any]:
        if self._devices == 1:
            loss, accuracy = step(*part)
        else:
            loss, accuracy = (self._strategy.reduce("SUM", each, None) for each in self._strategy.run(step, args=part))
        return loss, accuracy

    def _train_step(self, inputs: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
        variables = self._task.training_model.trainable_variables
        with tf.GradientTape() as tape:
            predicted = self._task.training_model(inputs, training=True)
            loss, accuracy = loss_and_accuracy(self._task, predicted, labels, weights, share)
            scaled = self._optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, variables)
        if self._sum_first:
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            total = tf.distribute.get_replica_context().all_reduce("SUM", dense)
            gradients = [gradient / self._devices for gradient in total]
        self._optimizer.apply(gradients, variables)
        return loss, accuracy

    def _validation_step(self, inputs: Any, labels: Any, weights: Any, share: Any) -> tuple[Any, Any]:
        predicted = self._task.validation_model(inputs, training=False)
        return loss_and_accuracy(self._task, predicted, labels, weights, share)


def _synchronize_batch_norm(model: Any) -> None:
    """Compute batch normalisation statistics over the rows of all devices, as on one."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
        elif isinstance(layer, keras.Model):
            _synchronize_batch_norm(layer)
