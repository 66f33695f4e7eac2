"""The compiled steps of a lesson on JAX, on one device or along a mesh of them."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from train.backend import keras
from train.contract import Lesson
from train.fitting.whole import Whole, judged


class JaxSteps:
    """See `train.fitting.devices.Steps`.

    While steps run, weights and the rest of the state are arrays that each step hands on to the next; the models'
    variables get them back in `settle`. Along a mesh the rows are divided and everything else is the same on every
    device; XLA sums up what has to be summed up, so that many devices compute what one would.
    """

    def __init__(self, lesson: Lesson, optimizer: Any, clip_norm: float | None, mesh: Mesh | None) -> None:
        self._lesson, self._optimizer = lesson, optimizer
        if clip_norm is not None:
            getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm = clip_norm
        self._rows: NamedSharding | None = None
        if mesh is not None:
            first = PartitionSpec(mesh.axis_names[0])  # type: ignore[no-untyped-call]
            self._rows = NamedSharding(mesh, first)
        trainee = lesson.trainee
        self._variables = (trainee.trainable_variables, trainee.non_trainable_variables, optimizer.variables)
        self._state: list[list[Any]] | None = None
        self._learn = jax.jit(self._learned, donate_argnums=0)
        self._check = jax.jit(self._checked)

    def learn(self, batch: Whole) -> tuple[Any, Any]:
        """As `Steps`."""
        if self._state is None:
            self._state = [[variable.value for variable in group] for group in self._variables]
        self._state, loss, right = self._learn(self._state, *self._spread(batch))
        return loss, right

    def check(self, batch: Whole) -> tuple[Any, Any]:
        """As `Steps`."""
        checked = self._lesson.checked
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

    def _spread(self, batch: Whole) -> Whole:
        """Each device's rows to it; other processes do the same with theirs."""
        rows = self._rows
        if rows is None:
            return batch
        mine, at = len(batch.labels) // jax.process_count(), jax.process_index()

        def spread(values: Any) -> Any:
            part = values[at * mine : (at + 1) * mine]
            return jax.make_array_from_process_local_data(rows, part, values.shape)  # type: ignore[no-untyped-call]

        inputs, labels, weights = keras.tree.map_structure(spread, (batch.inputs, batch.labels, batch.weights))
        return Whole(inputs, labels, weights, batch.share)

    def _learned(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        weights_now, others, optimizer = state

        def loss_of(trainable: list[Any]) -> tuple[Any, Any]:
            predicted, after = self._lesson.trainee.stateless_call(trainable, others, inputs, training=True)
            loss, right = judged(self._lesson, predicted, labels, weights, share)
            with keras.StatelessScope(state_mapping=list(zip(self._optimizer.variables, optimizer, strict=True))):
                scaled = self._optimizer.scale_loss(loss)
            return scaled, (loss, right, after)

        (_, (loss, right, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights_now)
        weights_now, optimizer = self._optimizer.stateless_apply(optimizer, gradients, weights_now)
        return [list(weights_now), list(others), list(optimizer)], loss, right

    def _checked(self, state: list[list[Any]], inputs: Any, labels: Any, weights: Any, share: Any) -> Any:
        predicted, _ = self._lesson.checked.stateless_call(*state, inputs, training=False)
        return judged(self._lesson, predicted, labels, weights, share)
