"""The work of a stage in the test's own process, for tests about what the stage does and not about its workers."""

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TypeVar

import pytest

from memeloom.configs.schema import Engine
from memeloom.engine.supervisor import Guard

P = TypeVar("P")
R = TypeVar("R")


def work_in_process(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """Replace the worker processes that `modules` start, and the check of their memory."""
    for module in modules:
        for name, stand_in in (("try_partitions", _try_partitions), ("resident_mb", lambda: 0.0)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)


def _try_partitions(
    opened: Callable[[], Callable[[P], R]], partitions: Iterable[P], engine: Engine, guard: Guard
) -> Iterator[tuple[P, R]]:
    function: Callable[[P], R] | None = None
    for partition in partitions:
        function = function or opened()
        yield partition, function(partition)
