"""Write and read rates of datasets against peers: `python -m bench.dataset_io --data DIR`.

The records are real captions of a dataset:

- frames: bytes in, bytes out: the cost of TFRecord files alone;
- records: texts in, texts out;
- pictures: records with 50 kB of noise each, so that bytes dominate.

Our writers hash and fsync their files; where that decides, a row adds a sha256 of its files to the peer. Processor time
of all threads, one process per row, best of the rounds; starting Python and imports are excluded. `make
bench-dataset-io` installs the peers.
"""

import argparse
import gzip
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-bench" / "bin" / "python"
_CAPTIONS = "imgflip_captions.jsonl.gz"
_PICTURE_BYTES = 50_000
_DEADLINE_SECONDS = 300


@dataclass(frozen=True)
class Way:
    """A row.

    against: the row of the same part that it must not be slower than. hashed: writing includes a sha256 of the files.
    """

    part: str
    name: str
    call: str
    against: str = ""
    hashed: bool = False


WAYS = (
    Way("frames", "tf.io, tf.data", "tensorflow/frames/none"),
    Way("frames", "tf.io, tf.data, and the sha256", "tensorflow/frames/none", hashed=True),
    Way("frames", "ours", "ours/frames/none", "tf.io, tf.data, and the sha256"),
    Way("frames", "tf.io, tf.data, gzip", "tensorflow/frames/gzip"),
    Way("frames", "ours, gzip", "ours/frames/gzip", "tf.io, tf.data, gzip"),
    Way("frames", "ours, zstd", "ours/frames/zstd"),
    Way("records", "tf.train.Example, read as records", "tensorflow/records/records/none"),
    Way("records", "tf.train.Example, read as columns", "tensorflow/records/columns/none"),
    Way("records", "tf.train.Example, gzip, read as columns", "tensorflow/records/columns/gzip"),
    Way("records", "datasets, from_generator", "datasets/generator"),
    Way("records", "datasets, from_list", "datasets/list"),
    Way("records", "TFDS builder", "tfds/builder"),
    Way("records", "webdataset's own", "webdataset/package"),
    Way("records", "ours, tfrecord", "ours/records/tfrecord/none", "tf.train.Example, read as records"),
    Way("records", "ours, tfrecord, gzip", "ours/records/tfrecord/gzip"),
    Way("records", "ours, tfrecord, zstd", "ours/records/tfrecord/zstd"),
    Way("records", "ours, parquet", "ours/records/parquet/none"),
    Way("records", "ours, parquet, zstd", "ours/records/parquet/zstd"),
    Way("records", "ours, webdataset", "ours/records/webdataset/none", "webdataset's own"),
    Way("records", "ours, webdataset, gzip", "ours/records/webdataset/gzip"),
    Way("records", "ours, dummy", "ours/records/dummy/none"),
    Way("pictures", "tf.train.Example", "tensorflow/records/records/none"),
    Way("pictures", "tf.train.Example, and the sha256", "tensorflow/records/records/none", hashed=True),
    Way("pictures", "datasets, from_generator", "datasets/generator"),
    Way("pictures", "TFDS builder", "tfds/builder"),
    Way("pictures", "webdataset's own, and the sha256", "webdataset/package", hashed=True),
    Way("pictures", "ours, tfrecord", "ours/records/tfrecord/none", "tf.train.Example, and the sha256"),
    Way("pictures", "ours, parquet", "ours/records/parquet/none"),
    Way("pictures", "ours, webdataset", "ours/records/webdataset/none", "webdataset's own, and the sha256"),
)


def main() -> None:
    """Measure and print one table; exit with 1 if one of ours is slower than its peer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder that holds {_CAPTIONS}")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose part or name holds this")
    options = parser.parse_args()
    console = Console(width=120)
    console.print(f"load before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors")
    table = Table(box=SIMPLE)
    for column in ("part", "who", "written/s", "read/s", "MB", "memory MB", "goal: not slower than"):
        table.add_column(column, justify="left" if column in {"part", "who"} else "right")
    rates: dict[tuple[str, str], tuple[float, float]] = {}
    met = True
    with tempfile.TemporaryDirectory() as folder:
        files = {part: Path(folder) / part for part in ("records", "pictures")}
        for part, number in (("records", options.records), ("pictures", options.pictures)):
            _take(options.data / _CAPTIONS, number, files[part])
        for way in WAYS:
            if options.only not in way.part and options.only not in way.name:
                continue
            measured = _measured(way, files.get(way.part, files["records"]), options.rounds)
            if isinstance(measured, str):
                console.print(f"  {way.part}, {way.name}: left out: {measured}")
                continue
            rates[way.part, way.name] = measured[0], measured[1]
            goal = _goal(way, rates)
            met &= not goal.endswith("NO")
            row = (way.part, way.name, *(f"{figure:,.0f}" for figure in measured[:2]), *measured[2:], goal)
            console.print("  ", *row)  # Printed as they come: an interrupted run leaves results.
            table.add_row(*map(str, row), end_section=way is not WAYS[-1] and way.part != _next(way).part)
    console.print(table)
    sys.exit(not met)


def _next(way: Way) -> Way:
    return WAYS[(WAYS.index(way) + 1) % len(WAYS)]


def _goal(way: Way, rates: dict[tuple[str, str], tuple[float, float]]) -> str:
    """Return the compared row, the ratios of write and read rates, and whether they suffice."""
    other = rates.get((way.part, way.against))
    if other is None:
        return ""
    write, read = (mine / theirs for mine, theirs in zip(rates[way.part, way.name], other, strict=True))
    return f"{way.against}: x {write:.1f} / x {read:.1f}: {'yes' if min(write, read) >= 1 else 'NO'}"


def _measured(way: Way, records: Path, rounds: int) -> tuple[float, float, str, str] | str:
    """Return records written and read per second, MB on disk and peak memory; or the reason for their absence."""
    ours = way.call.startswith("ours/")
    if not ours and not PEERS.exists():
        return f"there is no {PEERS.parents[1].name}"
    more = ["--picture-bytes", str(_PICTURE_BYTES)] if way.part == "pictures" else []
    more += ["--sha256"] if way.hashed else []
    command = [sys.executable if ours else str(PEERS), "-m", "bench.dataset_io_worker", way.call, str(records)]
    try:
        done = subprocess.run(
            ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *command, "--rounds", str(rounds), *more],
            cwd=ROOT, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {_DEADLINE_SECONDS} s"
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2]
    told = json.loads(done.stdout.strip().rpartition("\n")[2])
    write, read = (told["records"] / min(told[what], default=math.inf) for what in ("write", "read"))
    return write, read, f"{told['bytes'] / 1e6:.1f}", f"{told['memory_mb']:,.0f}"


def _take(captions: Path, number: int, into: Path) -> None:
    with gzip.open(captions, "rt") as lines, into.open("w") as out:
        for line in itertools.islice(lines, number):
            raw = json.loads(line)
            key = raw["post"].rpartition("/")[2]
            record = {
                "id": f"imgflip:{key}",
                "template": raw["template"].lower(),
                "template_name": raw["template"].replace("-", " "),
                "source": "imgflip",
                "split": "train",
                "text": "".join(f"{box}|" for box in raw["boxes"]),
                "boxes": raw["boxes"],
                "image_key": "",
            }
            out.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
