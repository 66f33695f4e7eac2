"""`try_partitions`: partitions that crash, stall or bloat their workers are results, and all others are done."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.engine import supervisor
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from tests.engine.partition_functions import (
    crash_or_hang,
    die_at_the_start,
    leak,
    local,
    note_each_start,
    process_id,
    ready,
    refuse_to_start,
)

LONG = Guard(seconds=60, memory_mb=10_000)
SHORT = Guard(seconds=2, memory_mb=10_000)


def tried(function: Callable[[Any], Any], partitions: list[Any], workers: int, guard: Guard) -> dict[Any, Any]:
    return dict(try_partitions(partial(ready, function), partitions, local(workers), guard))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_partition_that_crashes_its_worker_is_reported(workers: int) -> None:
    crashing = (2, 3, 7)
    partitions = [("die" if n in crashing else "square", n) for n in range(10)]
    results = {n: result for (_, n), result in tried(crash_or_hang, partitions, workers, LONG).items()}
    lost = {n: results.pop(n) for n in crashing}
    assert results == {n: n * n for n in (0, 1, 4, 5, 6, 8, 9)}
    assert {result.reason for result in lost.values()} == {"worker died"}
    assert lost[2] == Lost("worker died", "a worker was killed by SIGSEGV at partition 3 (('die', 2))")


def test_a_partition_that_hangs_in_native_code_times_out() -> None:
    partitions = [("hang" if n == 1 else "square", n) for n in range(5)]
    results = tried(crash_or_hang, partitions, 2, SHORT)
    lost = results.pop(("hang", 1))
    assert lost == Lost("timeout", "a worker took more than 2 s at partition 2 (('hang', 1))")
    assert results == {("square", n): n * n for n in (0, 2, 3, 4)}


def test_a_slow_consumer_makes_no_partition_late() -> None:
    results = try_partitions(partial(ready, crash_or_hang), [("square", n) for n in range(4)], local(2), SHORT)
    first = next(results)
    time.sleep(2.5)
    assert dict([first, *results]) == {("square", n): n * n for n in range(4)}


def test_a_worker_above_its_memory_limit_is_replaced_after_its_partition() -> None:
    guard = Guard(seconds=60, memory_mb=200)
    results = list(try_partitions(partial(ready, leak), [1, 300, 1, 1], local(1), guard))
    assert [partition for partition, _ in results] == [1, 300, 1, 1]
    first, second, third, fourth = (pid for _, pid in results)
    assert first == second
    assert third == fourth != first


def test_a_worker_is_opened_once(tmp_path: Path) -> None:
    results = dict(try_partitions(partial(note_each_start, str(tmp_path)), range(20), local(2), LONG))
    assert {file.name for file in tmp_path.iterdir()} >= {str(pid) for pid in results.values()}
    assert len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize(
    ("opened", "error", "message"),
    [
        (refuse_to_start, LookupError, "no engine"),
        (die_at_the_start, MemeloomError, "a worker was killed by SIGKILL before it was ready; if memory ran out"),
    ],
)
def test_workers_that_cannot_be_opened_end_the_run(
    opened: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(try_partitions(opened, range(4), local(2), LONG))


def test_workers_that_are_never_ready_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_START_SECONDS", 0.01)
    with pytest.raises(MemeloomError, match=r"a worker was not ready within 0\.01 s"):
        tried(process_id, [1], 1, LONG)


def test_a_run_whose_first_partitions_all_crash_ends_early() -> None:
    with pytest.raises(MemeloomError, match="nothing was done: the first 10 workers were lost"):
        tried(crash_or_hang, [("die", n) for n in range(100)], 2, LONG)


def test_an_error_in_the_partitions_ends_the_workers_at_once() -> None:
    raised = 0.0

    def some() -> Iterator[tuple[str, int]]:
        nonlocal raised
        yield from (("square", 1), ("square", 2))
        raised = time.monotonic()
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(try_partitions(partial(ready, crash_or_hang), some(), local(1), LONG))
    assert time.monotonic() - raised < 4.5, "it waited for a worker that was not told to end"
