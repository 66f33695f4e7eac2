"""Workers that are actors of a Ray cluster. Needs the extra ``ray``, and memeloom installed on the cluster's nodes.

Ray tries nothing again by itself here: no call is repeated and no actor is restarted. What kills a
worker comes back to us once for each time that it did.
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
from memeloom.configs.schema import Engine
from memeloom.engine.crew import Died, Guard, Hand
from memeloom.engine.duty import Duty
from memeloom.engine.outcome import Outcome

_CONNECT_SECONDS = 5.0


@contextmanager
def ray_crew(packed: bytes, engine: Engine, guard: Guard | None) -> Iterator["RayCrew"]:
    """The crew of the cluster at `engine.ray_address`: as many as `engine.workers` says, else as it has processors.

    Raises:
        MemeloomError: Ray is not installed, or the cluster is not there.
    """
    with _cluster(engine.ray_address) as ray:
        size = engine.workers or int(ray.cluster_resources().get("CPU", 0))
        if size < 1:
            raise MemeloomError(f"the Ray cluster at {engine.ray_address} has no processors")
        yield RayCrew(ray, size, Duty(packed, guard))


class RayCrew:
    """Up to `size` actors, each on a processor of its own. One for which none is free yet gets no partition."""

    def __init__(self, ray: Any, size: int, duty: Duty) -> None:
        self.size = size
        self._ray = ray
        self._duty = ray.put(duty)
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)

    def hire(self) -> Hand:
        """Ask for an actor; it is ready when the cluster has room."""
        return _RayHand(self._ray, self._actor.remote(self._duty))

    def wait(self, hands: Collection[Hand], seconds: float | None) -> list[Hand]:
        """Those whose call has returned, or failed."""
        said = {hand.said: hand for hand in hands if isinstance(hand, _RayHand)}
        first, _ = self._ray.wait(list(said), timeout=seconds)
        return [said[done] for done in (first and self._ray.wait(list(said), num_returns=len(said), timeout=0)[0])]

    def close(self) -> None:
        """Ray ends the actors that nothing refers to."""


class _RayHand:
    """An actor, and the answer that we wait for."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self.said = actor.open.remote()

    def give(self, partition: object) -> None:
        """Call it with `partition`."""
        self.said = self._actor.work.remote(partition)

    def hear(self) -> Outcome[Any]:
        """Its answer. Raises Died."""
        try:
            outcome: Outcome[Any] = pickle.loads(self._ray.get(self.said))  # noqa: S301 our own worker wrote it
        except self._ray.exceptions.RayError as error:
            raise Died(f"of the Ray cluster died ({str(error).splitlines()[0]})") from None
        return outcome

    def leave(self) -> None:
        """End it: it does nothing."""
        self.end()

    def end(self) -> None:
        """Kill it."""
        self._ray.kill(self._actor)


class _Actor:
    """`Duty` in a process of the cluster."""

    def __init__(self, duty: Duty) -> None:
        self._duty = duty

    def open(self) -> bytes:
        return self._duty.open()

    def work(self, partition: object) -> bytes:
        return self._duty.work(partition)


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
