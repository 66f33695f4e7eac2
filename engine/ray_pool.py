"""`run_partitions` on a Ray cluster that is there. Needs the extra ``ray``, and memeloom installed on its nodes."""

import logging
import os
import pickle
import reprlib
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from configs.errors import MemeloomError
from configs.schema import Engine
from engine.outcome import Outcome, attempt, be_single_threaded

P = TypeVar("P")
R = TypeVar("R")
_CONNECT_SECONDS = 5.0


def run_on_ray(function: Callable[[P], R], partitions: Iterable[P], engine: Engine) -> Iterator[R]:
    """Yield ``function(partition)`` as the cluster gets them done; see `engine.pool.run_partitions`.

    As many partitions are in flight as `engine.workers` says, else as the cluster has processors.

    Raises:
        MemeloomError: Ray is not installed, the cluster is not there, or a worker died.
    """
    with _cluster(engine.ray_address) as ray:
        in_flight = engine.workers or int(ray.cluster_resources().get("CPU", 0))
        if in_flight < 1:
            raise MemeloomError(f"the Ray cluster at {engine.ray_address} has no processors")
        # A task that killed its worker is not tried again: it would kill the next one.
        task = ray.remote(num_cpus=1, max_retries=0)(_work)
        packed = ray.put(pickle.dumps(function))
        numbered = enumerate(partitions, start=1)
        at_work: dict[Any, str] = {}
        try:
            while True:
                while len(at_work) < in_flight and (following := next(numbered, None)):
                    number, partition = following
                    at_work[task.remote(packed, partition)] = f"partition {number} ({reprlib.repr(partition)})"
                if not at_work:
                    return
                for done in ray.wait(list(at_work))[0]:
                    yield _outcome(ray, done, at_work.pop(done)).result()
        finally:
            for reference in at_work:
                ray.cancel(reference, force=True)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`; a connection of ours is closed at the end."""
    try:
        import ray
    except ImportError:
        raise MemeloomError('engine.kind is ray, but Ray is not installed: pip install "memeloom[ray]"') from None
    if ray.is_initialized():
        yield ray
        return
    _require_listener(address)
    # A cluster that listens but does not answer (it calls itself by an address that we cannot reach) would
    # be asked for many minutes; each of these tries takes half a minute.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "2")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise MemeloomError(f"cannot join the Ray cluster at {address!r} (engine.ray_address): {reason}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Ray itself waits a minute for a cluster that is not there."""
    if address in ("auto", "local"):
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((parts.hostname or "", parts.port or 6379), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise MemeloomError(
            f"no Ray cluster at {address!r} (engine.ray_address): {error}; start one with ray start --head"
        ) from error


def _work(packed: bytes, partition: object) -> bytes:
    be_single_threaded()
    return attempt(packed, partition)


def _outcome(ray: Any, done: Any, where: str) -> Outcome[Any]:
    try:
        outcome: Outcome[Any] = pickle.loads(ray.get(done))  # noqa: S301 our own worker wrote it
    except ray.exceptions.RayError as error:
        reason = str(error).splitlines()[0]
        raise MemeloomError(f"a Ray worker died at {where}: {reason}") from error
    return outcome
