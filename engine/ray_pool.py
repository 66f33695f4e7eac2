"""Workers as actors of a Ray cluster. Needs the extra ``ray``, and memeloom installed on the cluster's nodes.

Ray's own retries are off, so each crash is reported to the supervisor once.
"""

import logging
import os
import pickle
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from memeloom.configs.errors import MemeloomError
from memeloom.configs.extras import require
from memeloom.configs.masks import mask_url
from memeloom.configs.schema import Engine
from memeloom.engine.supervisor import Worker, WorkerDied
from memeloom.engine.worker import Outcome, Runner

_CONNECT_SECONDS = 5.0


@contextmanager
def ray_pool(engine: Engine, runner: Runner) -> Iterator["RayPool"]:
    """Join the cluster at `engine.ray_address`; yield a pool of `engine.workers` actors, default one per processor.

    Raises:
        MemeloomError: Ray is not installed, or the cluster cannot be reached.
    """
    with _cluster(engine.ray_address) as ray:
        size = engine.workers or int(ray.cluster_resources().get("CPU", 0))
        if size < 1:
            raise MemeloomError(f"the Ray cluster at {mask_url(engine.ray_address)} has no processors")
        yield RayPool(ray, size, runner)


class RayPool:
    """Up to `size` actors, each on its own processor. An actor that waits for a free one gets no partition yet."""

    def __init__(self, ray: Any, size: int, runner: Runner) -> None:
        self.size = size
        self._ray = ray
        self._runner = ray.put(runner)
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)

    def start(self) -> Worker:
        """Ask for an actor; it is ready when the cluster has room."""
        return _RayWorker(self._ray, self._actor.remote(self._runner))

    def wait(self, workers: Collection[Worker], seconds: float | None) -> list[Worker]:
        """Wait for calls that have returned or failed."""
        calls = {worker.call: worker for worker in workers if isinstance(worker, _RayWorker)}
        first, _ = self._ray.wait(list(calls), timeout=seconds)
        return [calls[done] for done in (first and self._ray.wait(list(calls), num_returns=len(calls), timeout=0)[0])]

    def close(self) -> None:
        """Do nothing: Ray ends actors that nothing refers to."""


class _RayWorker:
    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self.call = actor.open.remote()

    def send(self, partition: object) -> None:
        self.call = self._actor.run.remote(partition)

    def receive(self) -> Outcome[Any]:
        try:
            outcome: Outcome[Any] = pickle.loads(self._ray.get(self.call))  # noqa: S301 our own worker wrote it
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"of the Ray cluster died ({str(error).splitlines()[0]})") from None
        return outcome

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        self._ray.kill(self._actor)


class _Actor:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def open(self) -> bytes:
        return self._runner.open()

    def run(self, partition: object) -> bytes:
        return self._runner.run(partition)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Yield Ray connected to `address`; a connection opened here is closed at the end."""
    require("ray")
    import ray

    if ray.is_initialized():
        yield ray
        return
    _require_listener(address)
    # A cluster that advertises an unreachable address would be retried for minutes; an attempt takes half a minute.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "2")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise MemeloomError(
            f"cannot join the Ray cluster at {mask_url(address)!r} (engine.ray_address): {reason}"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Fail early if nothing listens; Ray itself would wait a minute."""
    if address in ("auto", "local"):
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((parts.hostname or "", parts.port or 6379), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise MemeloomError(
            f"no Ray cluster at {mask_url(address)!r} (engine.ray_address): {error}; start one with ray start --head"
        ) from error
