"""Where a training runs: one device, all of this machine, or those of several processes that work together."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from memeloom.configs.errors import ConfigError
from memeloom.train.backend import BACKEND, keras
from memeloom.train.contract import TrainingTask
from memeloom.train.fitting.batches import PaddedBatch

_MET_BY = {
    "tensorflow": ("TF_CONFIG",),
    "jax": ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID"),
}


class Steps(Protocol):
    """What is done with a batch, compiled. Results are numbers of the device that it may still be computing."""

    def learn(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """Fit the training_model to `batch`; the loss before it, and the share of right first choices."""
        ...

    def check(self, batch: PaddedBatch) -> tuple[Any, Any]:
        """The same of `checked`, which learns nothing. Only after `settle`."""
        ...

    def settle(self) -> None:
        """Bring the variables of models and optimizer up to date."""
        ...


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a training.

    count: how many, of all processes together. chief: whether this process is the one that writes files.
    kind: what they are. scope: in which models are made that live on all of them.
    steps: from a task, its optimizer (built) and the longest gradient, None: any.
    """

    count: int
    chief: bool
    kind: str
    scope: Callable[[], AbstractContextManager[Any]]
    steps: Callable[[TrainingTask, Any, float | None], Steps]


def open_devices(which: Literal["one", "all", "workers"], seed: int) -> Devices:
    """The devices that `train.devices` asks for. `workers` waits until the other processes are there.

    Raises:
        ConfigError: `workers`, and the environment does not say who they are.
    """
    if which == "workers":
        missing = [name for name in _MET_BY[BACKEND] if not os.environ.get(name)]
        if missing:
            raise ConfigError(
                f"train.devices is workers, but {missing[0]} is not set; it says who the workers are (docs/training.md)"
            )
        # Whatever is drawn without a seed of its own must be the same everywhere.
        keras.utils.set_random_seed(seed)
    return _on_tensorflow(which) if BACKEND == "tensorflow" else _on_jax(which)


def _on_tensorflow(which: Literal["one", "all", "workers"]) -> Devices:
    import tensorflow as tf

    from memeloom.train.fitting.tensorflow_steps import TensorFlowSteps

    chief = True
    if which == "workers":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        resolver = strategy.cluster_resolver
        first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
        chief = (resolver.task_type, resolver.task_id) == (first, 0)
    elif which == "all":
        names = [device.name for device in tf.config.list_logical_devices("GPU")]
        strategy = tf.distribute.MirroredStrategy(
            names or [device.name for device in tf.config.list_logical_devices("CPU")]
        )
    else:
        strategy = tf.distribute.get_strategy()
    return Devices(
        count=strategy.num_replicas_in_sync,
        chief=chief,
        kind=_tensorflow_kind(tf),
        scope=strategy.scope,
        steps=lambda task, optimizer, clip: TensorFlowSteps(task, optimizer, clip, strategy),
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
        chief=jax.process_index() == 0,
        kind=kind,
        scope=parallel.scope,
        steps=lambda task, optimizer, clip: JaxSteps(task, optimizer, clip, mesh),
    )
