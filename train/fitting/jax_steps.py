"""The compiled steps of a task on JAX, on one device or a mesh."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from memeloom.train.backend import keras
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import PaddedBatch, loss_and_accuracy


class JaxSteps:
    """Implements `memeloom.train.fitting.devices.Steps`.

    Weights and other state are arrays passed from step to step; `sync` writes them back to the variables. On a mesh the
    rows are sharded and everything else is replicated; XLA inserts the sums, so that results equal those of one device.
    """

    def __init__(self, task: TrainingTask, optimizer: Any, clip_norm: float | None, mesh: Mesh | None) -> None:
        self._task, self._optimizer = task, optimizer
        if clip_norm is not None:
            getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm = clip_norm
        self._sharding: NamedSharding | None = None
        if mesh is not None:
            rows = PartitionSpec(mesh.axis_names[0])  # type: ignore[no-untyped-call]
            self._sharding = NamedSharding(mesh, rows)
        model = task.training_model
        self._variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self._state: list[list[Any]] | None = None
        self._train = jax.jit(self._train_step, donate_argnums=0)
        self._validate = jax.jit(self._validation_step)

    def train(self, batch: PaddedBatch) -> tuple[Any, Any]:
        if self._state is None:
            self._state = [[variable.value for variable in group] for group in self._variables]
        self._state, loss, accuracy = self._train(self._state, *self._sharded(batch))
        return loss, accuracy

    def validate(self, batch: PaddedBatch) -> tuple[Any, Any]:
        model = self._task.validation_model
        state = [
            [variable.value for variable in group]
            for group in (model.trainable_variables, model.non_trainable_variables)
        ]
        found: tuple[Any, Any] = self._validate(state, *self._sharded(batch))
        return found

    def sync(self) -> None:
        if self._state is not None:
            for group, values in zip(self._variables, self._state, strict=True):
                for variable, value in zip(group, values, strict=True):
                    variable.assign(value)
        self._state = None

    def _sharded(self, batch: PaddedBatch) -> PaddedBatch:
        """Give each device its rows; the other processes do the same with theirs."""
        sharding = self._sharding
        if sharding is None:
            return batch
        mine, at = len(batch.labels) // jax.process_count(), jax.process_index()

        def shard(values: Any) -> Any:
            part = values[at * mine : (at + 1) * mine]
            return jax.make_array_from_process_local_data(sharding, part, values.shape)  # type: ignore[no-untyped-call]

        inputs, labels, weights = keras.tree.map_structure(shard, (batch.inputs, batch.labels, batch.weights))
        return PaddedBatch(inputs, labels, weights, batch.share)

    def _train_step(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        trainable, others, optimizer = state

        def loss_of(trainable: list[Any]) -> tuple[Any, Any]:
            predicted, after = self._task.training_model.stateless_call(trainable, others, inputs, training=True)
            loss, accuracy = loss_and_accuracy(self._task, predicted, labels, weights, share)
            with keras.StatelessScope(state_mapping=list(zip(self._optimizer.variables, optimizer, strict=True))):
                scaled = self._optimizer.scale_loss(loss)
            return scaled, (loss, accuracy, after)

        (_, (loss, accuracy, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
        trainable, optimizer = self._optimizer.stateless_apply(optimizer, gradients, trainable)
        return [list(trainable), list(others), list(optimizer)], loss, accuracy

    def _validation_step(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        predicted, _ = self._task.validation_model.stateless_call(*state, inputs, training=False)
        return loss_and_accuracy(self._task, predicted, labels, weights, share)
