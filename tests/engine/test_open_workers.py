"""`open_workers`: the same processes serve every round, and all of them end with the block."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.engine.pool import Workers, open_workers
from tests.engine.partition_functions import (
    die_at_three,
    fail_at_three,
    is_running,
    local,
    process_id,
    square,
    wait_for_each_other,
)


@pytest.fixture
def two() -> Iterator[Workers]:
    with open_workers(local(2)) as workers:
        yield workers


@pytest.mark.parametrize("workers", [1, 2])
def test_every_round_does_every_partition_once(workers: int) -> None:
    with open_workers(local(workers)) as opened:
        for count in (5, 0, 1, 40):
            assert sorted(opened.run(square, range(count))) == [n * n for n in range(count)]
        assert (set(opened.run(process_id, range(3))) == {os.getpid()}) is (workers == 1)


def test_the_same_processes_work_in_all_rounds_and_end_with_them(tmp_path: Path) -> None:
    with open_workers(local(2)) as opened:
        both = set(opened.run(wait_for_each_other, [str(tmp_path)] * 2))
        assert len(both) == 2
        for _ in range(5):
            assert set(opened.run(process_id, range(20))) <= both
        assert all(map(is_running, both))
    assert not any(map(is_running, both))


def test_a_round_that_ended_in_any_way_leaves_the_next_one_working(two: Workers) -> None:
    with pytest.raises(KeyError, match="three"):
        list(two.run(fail_at_three, range(10)))
    assert sorted(two.run(square, range(10))) == [n * n for n in range(10)]
    with pytest.raises(MemeloomError, match="a worker was killed by SIGKILL at partition"):
        list(two.run(die_at_three, range(10)))
    assert sorted(two.run(square, range(10))) == [n * n for n in range(10)]
    results = two.run(square, range(100))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert sorted(two.run(square, range(10))) == [n * n for n in range(10)]


def test_a_worker_that_died_while_idle_is_an_error(tmp_path: Path, two: Workers) -> None:
    for process in set(two.run(wait_for_each_other, [str(tmp_path)] * 2)):
        os.kill(process, 9)
    with pytest.raises(MemeloomError, match="a worker was killed by SIGKILL at partition"):
        list(two.run(square, range(10)))


def test_all_workers_end_when_the_block_raises() -> None:
    processes: set[int] = set()

    def leave() -> None:
        with open_workers(local(2)) as opened:
            processes.update(opened.run(process_id, range(20)))
            raise LookupError

    with pytest.raises(LookupError):
        leave()
    assert processes
    assert not any(map(is_running, processes))
