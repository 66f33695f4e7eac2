"""`run_partitions` on local processes: the results of a loop, and no process left after any error."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Engine
from memeloom.engine.pool import available_cores, run_partitions
from tests.engine.partition_functions import (
    OddError,
    die_at_three,
    die_beside_a_sleeper,
    exit_at_once,
    fail_at_three,
    fail_oddly,
    heavy_modules,
    is_running,
    process_id,
    return_a_function,
    square,
    thread_limits,
    wait_for_each_other,
)


class Tally:
    """Counts the calls of `advance`."""

    done = 0

    def start(self, stage: str, total: int | None, unit: str) -> None: ...

    def advance(self, n: int = 1, **_: int) -> None:
        self.done += n

    def finish(self) -> None: ...


def local(workers: int | None) -> Engine:
    return Engine(kind="local", workers=workers, ray_address="auto")


def wait_until(ready: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_every_partition_is_done_once(workers: int | None) -> None:
    progress = Tally()
    results = sorted(run_partitions(square, range(50), local(workers), progress))
    assert results == [n * n for n in range(50)]
    assert progress.done == 50


@pytest.mark.parametrize("workers", [1, 2])
def test_no_partitions_give_no_results(workers: int) -> None:
    assert list(run_partitions(square, [], local(workers))) == []


def test_one_worker_is_this_process_and_more_are_others(tmp_path: Path) -> None:
    assert set(run_partitions(process_id, range(3), local(1))) == {os.getpid()}
    others = set(run_partitions(wait_for_each_other, [str(tmp_path)] * 2, local(2)))
    assert len(others) == 2
    assert os.getpid() not in others


def test_no_more_workers_start_than_there_is_work() -> None:
    assert len(set(run_partitions(process_id, [1], local(8)))) == 1


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


def test_nothing_starts_before_the_first_result_is_requested() -> None:
    def explode() -> Iterator[int]:
        raise AssertionError("requested")
        yield 1

    run_partitions(square, explode(), local(2))


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


def test_a_worker_that_is_killed_is_an_error_that_names_the_partition() -> None:
    with pytest.raises(MemeloomError, match=r"a worker was killed by SIGKILL at partition 4 \(3\); if memory ran out"):
        list(run_partitions(die_at_three, range(10), local(2)))


def test_a_worker_that_exits_is_an_error_that_names_the_partition() -> None:
    with pytest.raises(MemeloomError, match="a worker ended with exit code 7 at partition 1"):
        list(run_partitions(exit_at_once, [1], local(2)))


def test_the_death_of_one_worker_ends_the_others(tmp_path: Path) -> None:
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
sys.path.insert(0, sys.argv[1])
from memeloom.configs.schema import Engine
from memeloom.engine.pool import run_partitions
from tests.engine.partition_functions import sleep_long
if __name__ == "__main__":
    list(run_partitions(sleep_long, [sys.argv[2]] * 2, Engine(kind="local", workers=2, ray_address="auto")))
"""


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path: Path, way: signal.Signals) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    child = subprocess.Popen(
        [sys.executable, script, Path(__file__).parents[2], folder], stderr=subprocess.PIPE, start_new_session=True
    )
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    # As a terminal does it: Ctrl-C goes to every process of the group.
    os.killpg(child.pid, way) if way is signal.SIGINT else child.kill()
    child.communicate(timeout=30)
    wait_until(lambda: not any(is_running(int(file.name)) for file in folder.iterdir()))


def test_libraries_in_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for environment, threads in run_partitions(thread_limits, range(2), local(2)):
        assert environment == "1"
        assert threads == 1


def test_a_worker_loads_nothing_heavy_by_itself() -> None:
    assert list(run_partitions(heavy_modules, [1], local(2))) == [[]]


def test_the_cores_are_those_this_process_may_use() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
