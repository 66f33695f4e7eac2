"""Two steps of a build by our own code and by other engines: is any of them better at the same result?

- equal captions: of equal captions keep the oldest, then the lowest id. Ours reads blocks, in two processes; DuckDB and
  Daft read a Parquet file of the same columns, in two threads, and sort and write what is kept. Each has done it once
  before, so that no start is timed.
- filter: the steps on every piece of the catalog, by our engine on two processes, by our engine on Ray with two
  processors, and by Ray Data on such a cluster. All read the pieces from the same files.

Memory is the peak proportional set size of all processes together, those of a Ray cluster included. The start of Python
and of a cluster is not timed.
"""

import filecmp
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.dataset_build import Watched, build, grow, real_catalog, watched
from bench.dataset_io import PEERS
from bench.rows import Row
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.dataset.flow.block import open_block
from memeloom.dataset.flow.choose import CHOSEN
from memeloom.dataset.flow.filter import read_line
from memeloom.dataset.flow.memes import cut
from memeloom.dataset.flow.work import WorkFolder, work_folder

_ROUNDS = 3
_WORKER = ("-m", "bench.dataset_engines_worker")
# With it, DuckDB and Python together take about the memory of ours.
_MEMORY = "100MB"
_ROW_GROUP = 122_880  # DuckDB's own, so that its threads share the work
_COLUMNS = ("order", "low", "posted", "template", "source", "check", "split")


def engine_rows(data: Path, scale: int) -> Iterator[Row]:
    """Yield a row for each way of each step. scale: times the data."""
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as name:
        folder = Path(name)
        catalog = real_catalog(data, folder)
        grow(catalog, scale)
        build(catalog, folder / "dataset", "dataset.keep_work=true")
        work = WorkFolder(work_folder(folder / "dataset"))
        yield from _equal_rows(work, folder)
        yield from _filter_rows(catalog, work, folder)


def _equal_rows(work: WorkFolder, folder: Path) -> Iterator[Row]:
    source, target = str(folder / "captions.parquet"), str(folder / "kept")
    captions = _write_captions(work, source)
    ways = {"ours": [sys.executable, "equal_ours", str(work.root)]}
    if PEERS.exists():
        peer = [str(PEERS), "equal_duckdb", source]
        ways["DuckDB"] = [*peer, target]
        ways[f"DuckDB, memory_limit {_MEMORY}"] = [*peer, f"{target}-limited", _MEMORY]
        ways["Daft"] = [str(PEERS), "equal_daft", source, f"{target}-daft"]
    else:
        yield Row("equal captions", "DuckDB, Daft", {"left out:": "make .venv-bench/.installed installs them"})
    done: dict[str, list[Watched]] = {who: [] for who in ways}
    for who, (python, *arguments) in [*ways.items()] * _ROUNDS:
        done[who].append(watched([python, *_WORKER, *arguments]))
    for who, runs in done.items():
        kept = _kept(runs[-1].told["files"])
        same = {"captions": f"{captions:,}, kept {kept[0]:,}"}
        yield _row("equal captions", who, captions, runs, same, kept == _kept(done["ours"][-1].told["files"]))


def _kept(files: Sequence[str]) -> tuple[int, int]:
    """Return the number of captions in the files, and the xor of their hashes."""
    checks = np.concatenate([
        np.fromfile(file, CHOSEN)["check"] if file.endswith(".rows") else pq.read_table(file)["check"].to_numpy()
        for file in files
    ])  # fmt: skip
    return len(checks), int(np.bitwise_xor.reduce(checks))


def _filter_rows(catalog: Path, work: WorkFolder, folder: Path) -> Iterator[Row]:
    """Filter the whole catalog into a work folder for each way."""
    plan = work.read("plan.json")
    pieces = folder / "pieces"
    pieces.mkdir()
    config = load_config(overrides=[f"store.documents=sqlite:///{catalog}"], environment={})
    with closing(open_documents(config.store)) as documents:
        for number, piece in enumerate(cut(documents.records(), plan["digest"])):
            table = pa.table({"plan": [plan["whole"]], **{name: [value] for name, value in piece._asdict().items()}})
            pq.write_table(table, pieces / f"{number:06}.parquet")
    ways = {"ours, local": "filter_local", "ours, Ray": "filter_ray", "Ray Data": "filter_ray_data"}
    roots = {who: folder / way for who, way in ways.items()}
    for root in roots.values():
        root.mkdir()
        (root / "plan.json").write_bytes(work.path("plan.json").read_bytes())
    blocks = [path.name for path in (work.root / "blocks").iterdir()]
    for who, root in roots.items():
        run = watched([sys.executable, *_WORKER, ways[who], str(pieces), str(root)])
        equal, *others = filecmp.cmpfiles(work.root / "blocks", root / "blocks", blocks, shallow=False)
        facts = {"files of blocks": f"{len(equal):,} with the bytes of the build, {sum(map(len, others))} without"}
        yield _row("filter", who, run.told["memes"], [run], facts, not any(others))


def _row(part: str, who: str, captions: int, runs: Sequence[Watched], facts: Mapping[str, str], same: bool) -> Row:
    seconds = sorted(run.told["seconds"] for run in runs)
    median = statistics.median(seconds)
    figures = {
        "seconds": f"{median:.2f} ({seconds[0]:.2f}-{seconds[-1]:.2f})" if len(runs) > 1 else f"{median:.1f}, once",
        "captions/s": f"{captions / median:,.0f}",
        "MB in all processes": f"{max(run.memory for run in runs):,.0f}",
        **facts,
    }
    return Row(part, who, figures, "the same result", same)


def _write_captions(work: WorkFolder, file: str) -> int:
    """Write the captions of all blocks as Parquet; return their number."""
    captions = pa.concat_tables(_captions(path) for path in sorted((work.root / "blocks").glob("*.rows")))
    pq.write_table(captions, file, row_group_size=_ROW_GROUP)
    return len(captions)


def _captions(path: Path) -> pa.Table:
    with open_block(path) as block:
        rows = block.between(0, block.rows)
        ids = [read_line(line).id for line in block.lines_of(np.arange(block.rows))]
    return pa.table({**{name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}, "id": ids})
