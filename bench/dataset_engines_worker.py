"""A step of a build by one engine, in its own process: `python -m bench.dataset_engines_worker WAY ARGUMENTS`.

Prints seconds, and the files written or the number of memes, as one line of JSON. Runs in our environment or in the
peers', so every way imports what it needs.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

_WORKERS = 2
_CHOSEN_AT_ONCE = 120_000  # as in `dataset.build`
Facts = dict[str, Any]


def main() -> None:
    """Do the step and print the figures."""
    way, *arguments = sys.argv[1:]
    # Ray Data logs to standard output.
    with redirect_stdout(sys.stderr):
        (told,) = _WAYS[way](*arguments)
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    # Threads of Daft may abort the process while Python ends.
    os._exit(0)


def _timed(step: Callable[[], Any], result: str) -> Facts:
    began = time.perf_counter()
    done = step()
    return {"seconds": time.perf_counter() - began, result: done}


def _warm(step: Callable[[], list[str]]) -> Facts:
    """Do the step twice and time the second, as workers already run in a build; return the files written."""
    step()
    return _timed(step, "files")


def _equal_ours(root: str) -> Iterator[Facts]:
    """Choose among equal captions only: without results of the search for near-duplicates."""
    from memeloom.dataset.flow.block import power_of_two, read_head
    from memeloom.dataset.flow.choose import Choose, choose
    from memeloom.dataset.flow.work import WorkFolder
    from memeloom.engine.pool import open_workers

    work = WorkFolder(Path(root))
    blocks = sorted(path.stem for path in (work.root / "blocks").glob("*.rows"))
    parts = power_of_two(sum(read_head(work, key).rows for key in blocks), _CHOSEN_AT_ONCE)
    plan = work.read("plan.json")["whole"]
    tasks = [Choose(work.place, plan, blocks, [], "unique/bench", part, parts) for part in range(parts)]
    with open_workers(_engine()) as workers:
        yield _warm(lambda: [str(work.rows(name)) for name in workers.run(choose, tasks)])


def _equal_duckdb(source: str, target: str, *memory: str) -> Iterator[Facts]:
    import duckdb

    connection = duckdb.connect(config={"threads": _WORKERS, "temp_directory": f"{target}.spilled"})
    for limit in memory:
        connection.execute(f"SET memory_limit='{limit}'")
    query = (
        f"COPY (SELECT * FROM '{source}' QUALIFY"
        ' row_number() OVER (PARTITION BY "order", low ORDER BY posted, id) = 1 ORDER BY split, "order")'
        f" TO '{target}' (FORMAT parquet)"
    )
    yield _warm(lambda: connection.execute(query) and [target])


def _equal_daft(source: str, target: str) -> Iterator[Facts]:
    import daft
    from daft.functions import row_number

    daft.set_runner_native(_WORKERS)
    window = daft.Window().partition_by("order", "low").order_by("posted", "id")

    def step() -> list[str]:
        numbered = daft.read_parquet(source).with_column("n", row_number().over(window))
        first = numbered.where(daft.col("n") == 1).exclude("n").sort(["split", "order"])
        return [*first.write_parquet(target, write_mode="overwrite").to_pydict()["path"]]

    yield _warm(step)


def _filter_ours(pieces: str, root: str, address: str = "") -> Iterator[Facts]:
    """Filter by our engine: on two processes, or on the cluster at `address`."""
    import pyarrow.parquet as pq

    from memeloom.dataset.flow.filter import filter_piece
    from memeloom.engine.pool import run_partitions

    tasks = (task_of(row, root) for file in _files(pieces) for row in pq.read_table(file).to_pylist())
    done = run_partitions(filter_piece, tasks, _engine(address))
    yield _timed(lambda: sum(each.memes for each in done), "memes")


def _filter_ray(pieces: str, root: str) -> Iterator[Facts]:
    with _cluster() as address:
        yield from _filter_ours(pieces, root, address)


def _filter_ray_data(pieces: str, root: str) -> Iterator[Facts]:
    """Filter by Ray Data, which reads each piece where it filters it."""
    import ray
    import ray.data

    def filtered(row: dict[str, Any]) -> Facts:
        from bench.dataset_engines_worker import task_of
        from memeloom.dataset.flow.filter import filter_piece

        return {"memes": filter_piece(task_of(row, root)).memes}

    def step() -> int:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # Else listing files reserves one of the two processors.
        context.use_datasource_v2 = context.op_resource_reservation_enabled = False
        read = ray.data.read_parquet(_files(pieces), override_num_blocks=len(_files(pieces)))
        return sum(row["memes"] for row in read.map(filtered).iter_rows())

    with _cluster() as address:
        yield _timed(step, "memes")
        ray.shutdown()


def _files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.parquet")))


def task_of(row: dict[str, Any], root: str) -> Any:
    """Return the task to filter a piece into the work folder at `root`."""
    from memeloom.dataset.flow.filter import Filter
    from memeloom.dataset.flow.memes import Piece

    piece = Piece(**{name: row[name] for name in Piece._fields})
    return Filter(Path(root), row["plan"], piece._replace(records=list(piece.records)), None)


def _engine(address: str = "") -> Any:
    from memeloom.configs.schema import Engine

    return Engine(kind="ray" if address else "local", workers=_WORKERS, ray_address=address)


@contextmanager
def _cluster() -> Iterator[str]:
    from tests.services.ray_cluster import ray_cluster

    # On a busy machine it takes longer to end than it is given, which the figures do not depend on.
    with suppress(subprocess.TimeoutExpired), ray_cluster(_WORKERS) as address:
        yield address


_WAYS: dict[str, Callable[..., Iterator[Facts]]] = {
    "equal_ours": _equal_ours,
    "equal_duckdb": _equal_duckdb,
    "equal_daft": _equal_daft,
    "filter_local": _filter_ours,
    "filter_ray": _filter_ray,
    "filter_ray_data": _filter_ray_data,
}

if __name__ == "__main__":
    main()
