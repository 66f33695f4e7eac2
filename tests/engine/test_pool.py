"""`run_partitions` on local processes: the results of a loop, and no process left after any error."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.progress import Progress
from memeloom.configs.schema import Engine
from memeloom.engine.pool import run_partitions
from tests.engine.partition_functions import (
    OddError,
    die_at_three,
    die_beside_a_sleeper,
    exit_at_three,
    fail_at_three,
    fail_oddly,
    heavy_modules,
    is_running,
    local,
    process_id,
    return_a_function,
    square,
    thread_limits,
    wait_for_each_other,
)
from tests.waiting import wait_until


@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_each_partition_is_done_once(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    progress, advanced = Progress(), list[int]()
    monkeypatch.setattr(progress, "advance", advanced.append)
    results = sorted(run_partitions(square, range(50), local(workers), progress))
    assert results == [n * n for n in range(50)]
    assert sum(advanced) == 50
    assert list(run_partitions(square, [], local(workers))) == []


def test_one_worker_is_this_process_and_more_are_others(tmp_path: Path) -> None:
    assert set(run_partitions(process_id, range(3), local(1))) == {os.getpid()}
    others = set(run_partitions(wait_for_each_other, [str(tmp_path)] * 2, local(2)))
    assert len(others) == 2
    assert os.getpid() not in others


@pytest.mark.parametrize("workers", [1, 2])
def test_endless_partitions_are_taken_only_as_workers_become_free(workers: int) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = run_partitions(square, endless(), local(workers))
    for done in range(1, 20):
        next(results)
        assert taken <= done + workers
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_of_the_function_is_raised_unchanged(workers: int) -> None:
    with pytest.raises(KeyError, match="three") as caught:
        list(run_partitions(fail_at_three, range(10), local(workers)))
    if workers > 1:
        assert "in fail_at_three" in "".join(caught.value.__notes__)


def test_an_exception_that_cannot_be_pickled_is_raised_with_its_text() -> None:
    with pytest.raises(OddError, match="broken at place 0"):
        list(run_partitions(fail_oddly, range(2), local(1)))
    with pytest.raises(RuntimeError, match="OddError: broken at place"):
        list(run_partitions(fail_oddly, range(2), local(2)))


def test_a_result_that_cannot_be_pickled_is_an_error() -> None:
    with pytest.raises((AttributeError, TypeError, RuntimeError), match=r"(?i)pickle|local object"):
        list(run_partitions(return_a_function, range(2), local(2)))


@pytest.mark.parametrize(
    ("function", "end"), [(die_at_three, "was killed by SIGKILL"), (exit_at_three, "ended with exit code 7")]
)
def test_a_worker_crash_is_an_error_that_names_the_partition(function: Callable[[int], Any], end: str) -> None:
    with pytest.raises(MemeloomError, match=rf"a worker {end} at partition 4 \(3\); if memory ran out"):
        list(run_partitions(function, range(10), local(2)))


def test_a_worker_crash_ends_the_other_workers(tmp_path: Path) -> None:
    with pytest.raises(MemeloomError, match="SIGKILL"):
        list(run_partitions(die_beside_a_sleeper, [(str(tmp_path), True), (str(tmp_path), False)], local(2)))
    (sleeper,) = tmp_path.iterdir()
    assert not is_running(int(sleeper.name))


def test_ending_the_iteration_early_ends_the_workers() -> None:
    results = run_partitions(process_id, itertools.count(), local(2))
    seen = {next(results) for _ in range(20)}
    results.close()  # type: ignore[attr-defined]
    assert not any(map(is_running, seen))


SCRIPT = """
import sys
from functools import partial
sys.path.insert(0, sys.argv[1])
from memeloom.engine.pool import run_partitions, try_partitions
from memeloom.engine.supervisor import Guard
from tests.engine.partition_functions import hang_in_native_code, local, ready, sleep_long
if __name__ == "__main__":
    list({})
"""
SLEEP = "run_partitions(sleep_long, [sys.argv[2]] * 2, local(2))"
HANG = "try_partitions(partial(ready, hang_in_native_code), [sys.argv[2]] * 2, local(2), Guard(1.5, 10_000))"


@pytest.mark.parametrize(
    ("work", "way"), [(SLEEP, signal.SIGINT), (SLEEP, signal.SIGKILL), (HANG, signal.SIGKILL)], ids=str
)
def test_workers_end_with_their_parent(tmp_path: Path, work: str, way: signal.Signals) -> None:
    folder, script = tmp_path / "pids", tmp_path / "script.py"
    folder.mkdir()
    script.write_text(SCRIPT.format(work))
    child = subprocess.Popen(
        [sys.executable, script, Path(__file__).parents[2], folder], stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_until(lambda: len(list(folder.iterdir())) == 2)
        # As a terminal does it: Ctrl-C goes to every process of the group.
        os.killpg(child.pid, way) if way is signal.SIGINT else child.kill()
        child.wait(30)
        wait_until(lambda: not any(is_running(int(file.name)) for file in folder.iterdir()))
    finally:
        child.kill()
        child.communicate()


def test_libraries_in_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert list(run_partitions(thread_limits, range(2), local(2))) == [("1", 1)] * 2


def test_a_worker_loads_nothing_heavy_by_itself() -> None:
    assert list(run_partitions(heavy_modules, [1], local(2))) == [[]]


def test_ray_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MemeloomError, match=r'pip install "memeloom\[ray\]"'):
        list(run_partitions(square, [1], Engine(kind="ray", workers=2, ray_address="auto")))
