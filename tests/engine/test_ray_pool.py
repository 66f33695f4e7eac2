"""The Ray engine on a private cluster: the same results and the same errors as local processes."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Engine
from memeloom.engine.pool import run_partitions, try_partitions
from memeloom.engine.supervisor import Guard, Lost
from tests.engine.partition_functions import (
    crash_or_hang,
    die_at_three,
    fail_at_three,
    ready,
    square,
    thread_limits,
)
from tests.services.process import free_port
from tests.services.ray_cluster import ray_cluster

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray"),
    # Ray leaves resources open and uses deprecated calls.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]  # fmt: skip


def on(address: str) -> Engine:
    return Engine(kind="ray", workers=2, ray_address=address)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Engine]:
    with ray_cluster(processors=2) as address:
        yield on(address)


def test_the_results_are_those_of_local_processes(cluster: Engine) -> None:
    local = cluster.model_copy(update={"kind": "local"})
    assert sorted(run_partitions(square, range(50), cluster)) == sorted(run_partitions(square, range(50), local))
    for environment, threads in run_partitions(thread_limits, range(2), cluster):
        assert (environment, threads) == ("1", 1)


def test_errors_are_those_of_local_processes(cluster: Engine) -> None:
    with pytest.raises(KeyError, match="three") as caught:
        list(run_partitions(fail_at_three, range(10), cluster))
    assert "in fail_at_three" in "".join(caught.value.__notes__)
    with pytest.raises(MemeloomError, match=r"a worker of the Ray cluster died \(.*\) at partition 4 \(3\)"):
        list(run_partitions(die_at_three, range(10), cluster))


def test_crashing_and_hanging_partitions_are_reported_once(cluster: Engine) -> None:
    fates = {1: "die", 4: "hang"}
    partitions = [(fates.get(n, "square"), n) for n in range(8)]
    results = list(
        try_partitions(partial(ready, crash_or_hang), partitions, cluster, Guard(seconds=3, memory_mb=10_000))
    )
    assert sorted(n for (_, n), _ in results) == list(range(8))
    assert {n: result.reason for (_, n), result in results if isinstance(result, Lost)} == {
        1: "worker died", 4: "timeout",
    }  # fmt: skip
    assert all(result == n * n for (_, n), result in results if n not in fates)


def test_a_cluster_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(MemeloomError, match=r"no Ray cluster at '127\.0\.0\.1:\d+' \(engine\.ray_address\)"):
        list(run_partitions(square, [1], on(f"127.0.0.1:{free_port()}")))
    with pytest.raises(MemeloomError, match=r"no Ray cluster at 'nonsense'"):
        list(run_partitions(square, [1], on("nonsense")))
