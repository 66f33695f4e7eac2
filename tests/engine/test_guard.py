"""`try_partitions`: partitions that crash, stall or bloat their workers are results, and all others are done."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Engine
from memeloom.engine import supervisor
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard, Lost
from tests.engine.partition_functions import (
    die_at_the_start,
    fail_at_three,
    grow,
    is_running,
    note_each_start,
    process_id,
    ready,
    refuse_to_start,
    suffer,
)

LONG = Guard(seconds=60, memory_mb=10_000)
SHORT = Guard(seconds=1, memory_mb=10_000)


def local(workers: int) -> Engine:
    return Engine(kind="local", workers=workers, ray_address="auto")


def tried(function: Callable[[Any], Any], partitions: list[Any], workers: int, guard: Guard) -> dict[Any, Any]:
    return dict(try_partitions(partial(ready, function), partitions, local(workers), guard))


@pytest.mark.parametrize("workers", [1, 3])
def test_each_partition_is_yielded_with_its_result(workers: int) -> None:
    partitions = [("square", n) for n in range(20)]
    assert tried(suffer, partitions, workers, LONG) == {partition: partition[1] ** 2 for partition in partitions}


def test_a_single_worker_is_another_process() -> None:
    assert os.getpid() not in tried(process_id, [1, 2], 1, LONG).values()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_partition_that_crashes_its_worker_is_reported(workers: int) -> None:
    partitions = [("die" if n in (2, 3, 7) else "square", n) for n in range(10)]
    results = tried(suffer, partitions, workers, LONG)
    assert {n: result for (_, n), result in results.items() if not isinstance(result, Lost)} == {
        n: n * n for n in (0, 1, 4, 5, 6, 8, 9)
    }
    lost = {n: result for (_, n), result in results.items() if isinstance(result, Lost)}
    assert {n: result.reason for n, result in lost.items()} == dict.fromkeys((2, 3, 7), "worker died")
    assert lost[2].detail == "a worker was killed by SIGSEGV at partition 3 (('die', 2))"


def test_a_partition_that_hangs_in_native_code_times_out() -> None:
    partitions = [("hang" if n == 1 else "square", n) for n in range(5)]
    begun = time.monotonic()
    results = tried(suffer, partitions, 2, SHORT)
    lost = results.pop(("hang", 1))
    assert lost == Lost("timeout", "a worker took more than 1 s at partition 2 (('hang', 1))")
    assert results == {("square", n): n * n for n in (0, 2, 3, 4)}
    assert time.monotonic() - begun < 30


def test_a_slow_consumer_makes_no_partition_late() -> None:
    seen = Counter[str]()
    for _, result in try_partitions(partial(ready, suffer), [("square", n) for n in range(4)], local(2), SHORT):
        if not seen:
            time.sleep(1.5)
        seen["lost" if isinstance(result, Lost) else "done"] += 1
    assert seen == {"done": 4}


def test_a_worker_above_its_memory_limit_is_replaced_after_its_partition() -> None:
    guard = Guard(seconds=60, memory_mb=200)
    results = list(try_partitions(partial(ready, grow), [1, 300, 1, 1], local(1), guard))
    assert [partition for partition, _ in results] == [1, 300, 1, 1]
    first, second, third, fourth = (pid for _, pid in results)
    assert first == second
    assert third == fourth != first


def test_a_worker_is_opened_once(tmp_path: Path) -> None:
    results = dict(try_partitions(partial(note_each_start, str(tmp_path)), range(20), local(2), LONG))
    assert {file.name for file in tmp_path.iterdir()} >= {str(pid) for pid in results.values()}
    assert len(list(tmp_path.iterdir())) <= 2


def test_an_error_while_opening_a_worker_ends_the_run() -> None:
    with pytest.raises(LookupError, match="no engine"):
        list(try_partitions(refuse_to_start, range(4), local(2), LONG))


def test_an_error_of_the_function_ends_the_run() -> None:
    with pytest.raises(KeyError, match="three"):
        list(try_partitions(partial(ready, fail_at_three), range(10), local(2), LONG))


def test_workers_that_crash_while_starting_end_the_run() -> None:
    with pytest.raises(MemeloomError, match="a worker was killed by SIGKILL before it was ready; if memory ran out"):
        list(try_partitions(die_at_the_start, range(4), local(2), LONG))


def test_workers_that_are_never_ready_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_START_SECONDS", 0.01)
    with pytest.raises(MemeloomError, match=r"a worker was not ready within 0\.01 s"):
        list(try_partitions(partial(ready, suffer), [("square", 1)], local(1), LONG))


def test_a_run_whose_first_partitions_all_crash_ends_early() -> None:
    partitions = [("die", n) for n in range(100)]
    lost = []
    with pytest.raises(MemeloomError, match="nothing was done: the first 10 workers were lost"):
        lost += [result for _, result in try_partitions(partial(ready, suffer), partitions, local(2), LONG)]
    assert lost == []


def test_an_error_in_the_partitions_ends_the_workers_at_once() -> None:
    def some() -> Iterator[tuple[str, int]]:
        yield from (("square", 1), ("square", 2))
        raise OSError("no more")

    begun = time.monotonic()
    with pytest.raises(OSError, match="no more"):
        list(try_partitions(partial(ready, suffer), some(), local(1), LONG))
    assert time.monotonic() - begun < 4.5, "it waited for a worker that was not told to end"


SCRIPT = """
import sys
from functools import partial
sys.path.insert(0, sys.argv[1])
from memeloom.configs.schema import Engine
from memeloom.engine.supervisor import Guard
from memeloom.engine.pool import try_partitions
from tests.engine.partition_functions import hang_where_it_is_seen, ready
if __name__ == "__main__":
    engine = Engine(kind="local", workers=1, ray_address="auto")
    list(try_partitions(partial(ready, hang_where_it_is_seen), [sys.argv[2]], engine, Guard(1.5, 10_000)))
"""


def test_the_kernel_ends_a_hung_worker_whose_parent_died(tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.Popen([sys.executable, script, Path(__file__).parents[2], folder], start_new_session=True)
    try:
        (pid,) = _wait_for(lambda: [int(file.name) for file in folder.iterdir()])
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    _wait_for(lambda: not is_running(pid))


def _wait_for(get: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (got := get()):
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)
    return got


def endless() -> Iterator[tuple[str, int]]:
    while True:
        yield "square", 1


def test_ending_the_iteration_early_ends_the_workers() -> None:
    results = try_partitions(partial(ready, process_id), endless(), local(2), LONG)
    pids = {next(results)[1] for _ in range(20)}
    results.close()  # type: ignore[attr-defined]
    assert not any(is_running(pid) for pid in pids if isinstance(pid, int))
