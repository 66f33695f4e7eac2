"""The devices of a training: one, all of this machine, or those of several processes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from memeloom.train.backend import BACKEND, keras
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import PaddedBatch


class Steps(Protocol):
    """The compiled train and validation steps of a task. Results are device scalars that may still be computing."""

    def train(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """Train on `batch`; return the loss before the update and the accuracy."""

    def validate(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """Return loss and accuracy of the validation model. Call `sync` before."""

    def sync(self) -> None:
        """Write the state of the steps back to the variables of models and optimizer."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a training.

    count: number of devices of all processes. is_chief: True for the process that writes files. kind: hardware name.
    scope: context in which models are built.
    steps: creates steps from a task, its built optimizer and the gradient norm to clip at (None: no clipping).
    """

    count: int
    is_chief: bool
    kind: str
    scope: Callable[[], AbstractContextManager[Any]]
    steps: Callable[[TrainingTask, Any, float | None], Steps]


def open_devices(which: Literal["one", "all", "workers"], seed: int) -> Devices:
    """Open the devices of `train.devices`. `workers` waits for the other processes."""
    if which == "workers":
        # Unseeded random numbers must be equal in all processes.
        keras.utils.set_random_seed(seed)
    return _on_tensorflow(which) if BACKEND == "tensorflow" else _on_jax(which)


def _on_tensorflow(which: Literal["one", "all", "workers"]) -> Devices:
    import tensorflow as tf

    from memeloom.train.fitting.tensorflow_steps import TensorFlowSteps

    is_chief = True
    if which == "workers":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        resolver = strategy.cluster_resolver
        first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
        is_chief = (resolver.task_type, resolver.task_id) == (first, 0)
    elif which == "all":
        names = [device.name for device in tf.config.list_logical_devices("GPU")]
        strategy = tf.distribute.MirroredStrategy(
            names or [device.name for device in tf.config.list_logical_devices("CPU")]
        )
    else:
        strategy = tf.distribute.get_strategy()
    return Devices(
        count=strategy.num_replicas_in_sync,
        is_chief=is_chief,
        kind=_tensorflow_kind(tf),
        scope=strategy.scope,
        steps=lambda task, optimizer, clip_norm: TensorFlowSteps(task, optimizer, clip_norm, strategy),
    )


def _tensorflow_kind(tf: Any) -> str:
    gpus = tf.config.list_physical_devices("GPU")
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")) if gpus else "CPU"


def _on_jax(which: Literal["one", "all", "workers"]) -> Devices:
    import jax

    from memeloom.train.fitting.jax_steps import JaxSteps

    if which == "workers":
        keras.distribution.initialize()
    kind = str(jax.devices()[0].device_kind)
    if which == "one":
        return Devices(1, True, kind, nullcontext, lambda task, optimizer, clip: JaxSteps(task, optimizer, clip, None))
    parallel = keras.distribution.DataParallel(devices=keras.distribution.list_devices(), auto_shard_dataset=False)
    mesh = parallel.device_mesh.backend_mesh
    return Devices(
        count=mesh.size,
        is_chief=jax.process_index() == 0,
        kind=kind,
        scope=parallel.scope,
        steps=lambda task, optimizer, clip_norm: JaxSteps(task, optimizer, clip_norm, mesh),
    )
