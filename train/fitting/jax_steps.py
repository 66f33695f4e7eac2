"""The compiled steps of a task on JAX, on one device or along a mesh of them."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from memeloom.train.backend import keras
from memeloom.train.contract import Table, TrainingTask
from memeloom.train.fitting.batches import PaddedBatch, judged


class JaxSteps:
    """See `train.fitting.devices.Steps`.

    While steps run, weights and the rest of the state are arrays that each step hands on to the next; the models'
    variables get them back in `settle`. Along a mesh the rows are divided and everything else is the same on every
    device; XLA sums up what has to be summed up, so that many devices compute what one would.
    """

    def __init__(self, task: TrainingTask, optimizer: Any, clip_norm: float | None, mesh: Mesh | None) -> None:
        self._task, self._optimizer = task, optimizer
        if clip_norm is not None:
            getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm = clip_norm
        self._rows: NamedSharding | None = None
        if mesh is not None:
            first = PartitionSpec(mesh.axis_names[0])  # type: ignore[no-untyped-call]
            self._rows = NamedSharding(mesh, first)
        training_model = task.training_model
        table = task.table
        held = [] if table is None else [table.vectors, table.squares]
        self._variables = (
            training_model.trainable_variables,
            training_model.non_trainable_variables,
            optimizer.variables,
            held,
        )
        self._state: list[list[Any]] | None = None
        self._learn = jax.jit(self._learned, donate_argnums=0)
        self._check = jax.jit(self._checked)

    def learn(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """As `Steps`."""
        if self._state is None:
            self._state = [[variable.value for variable in group] for group in self._variables]
        self._state, loss, right = self._learn(self._state, *self._spread(batch))
        return loss, right

    def check(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """As `Steps`."""
        checked = self._task.checked
        state = [
            [variable.value for variable in group]
            for group in (checked.trainable_variables, checked.non_trainable_variables)
        ]
        found: tuple[Any, Any] = self._check(state, *self._spread(batch))
        return found

    def settle(self) -> None:
        """As `Steps`."""
        if self._state is not None:
            for group, values in zip(self._variables, self._state, strict=True):
                for variable, value in zip(group, values, strict=True):
                    variable.assign(value)
        self._state = None

    def _spread(self, batch: PaddedBatch) -> PaddedBatch:
        """Each device's rows to it; other processes do the same with theirs."""
        rows = self._rows
        if rows is None:
            return batch
        mine, at = len(batch.labels) // jax.process_count(), jax.process_index()

        def spread(values: Any) -> Any:
            part = values[at * mine : (at + 1) * mine]
            return jax.make_array_from_process_local_data(rows, part, values.shape)  # type: ignore[no-untyped-call]

        inputs, labels, weights = keras.tree.map_structure(spread, (batch.inputs, batch.labels, batch.weights))
        return PaddedBatch(inputs, labels, weights, batch.share)

    def _learned(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        weights_now, others, optimizer, held = state
        table, rows = self._task.table, None
        vectors: list[Any] = []
        if table is not None:
            rows, *inputs = inputs
            vectors = [held[0][rows].reshape(*rows.shape[:-1], -1)]

        def loss_of(trainable: list[Any], vectors: list[Any]) -> tuple[Any, Any]:
            given = (*vectors, *inputs) if vectors else inputs
            predicted, after = self._task.training_model.stateless_call(trainable, others, given, training=True)
            loss, right = judged(self._task, predicted, labels, weights, share)
            with keras.StatelessScope(state_mapping=list(zip(self._optimizer.variables, optimizer, strict=True))):
                scaled = self._optimizer.scale_loss(loss)
            return scaled, (loss, right, after)

        (_, (loss, right, others)), (gradients, slopes) = jax.value_and_grad(loss_of, (0, 1), has_aux=True)(
            weights_now, vectors
        )
        if table is not None:
            held = self._table_learned(table, held, optimizer, rows, slopes[0], share)
        weights_now, optimizer = self._optimizer.stateless_apply(optimizer, gradients, weights_now)
        return [list(weights_now), list(others), list(optimizer), held], loss, right

    def _table_learned(
        self, table: Table, held: list[Any], optimizer: list[Any], rows: Any, slopes: Any, share: Any
    ) -> list[Any]:
        """The table's variables after a step. slopes: of the mean loss, as the optimizer scales it."""
        with keras.StatelessScope(state_mapping=list(zip(self._optimizer.variables, optimizer, strict=True))):
            slopes = slopes / self._optimizer.scale_loss(share)
            rate = table.rate * self._optimizer.learning_rate
        rows, slopes = rows.reshape(-1), slopes.reshape(-1, table.width)
        # With 16-bit floats some are no numbers once in a while; the optimizer leaves such a step out, too.
        learned = jax.numpy.isfinite(slopes).all() & (rows != table.nothing)
        slopes = jax.numpy.where(learned[:, None], slopes, 0.0)
        vectors, squares = held
        squares = squares.at[rows].add((slopes * slopes).mean(axis=1))
        scale = rate * jax.lax.rsqrt(squares[rows] + table.small)
        return [vectors.at[rows].add(-slopes * scale[:, None]), squares]

    def _checked(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        predicted, _ = self._task.checked.stateless_call(*state, inputs, training=False)
        return judged(self._task, predicted, labels, weights, share)
