"""Rate and memory of whole builds, and how they grow with the data.

Larger catalogs hold changed copies of the real captions, three of ten words replaced by others of the corpus, so that
captions stay distinct and the templates' usual phrases stay usual. Memory is the peak proportional set size of all
processes together.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.rows import Row
from memeloom.configs.load import load_config
from memeloom.configs.progress import Progress
from memeloom.report.plot import Plot, Series, picture
from memeloom.scrapers.dumps.transfer import import_dumps

ROOT = Path(__file__).parents[1]
CAPTIONS = "imgflip_captions.jsonl.gz"
_RATE, _MEMORY_MB = 30_000, 600
_WORDS_CHANGED = 0.3
_NEW_SHARE = 0.01
_AGAIN = 0.15
_CHUNK = 20_000
_WATCH_SECONDS = 0.5
_COLUMNS = "id, record, source, template, author, image_key, flags"


@dataclass(frozen=True)
class Built:
    """A build: memes in its catalog, its output, wall seconds, and peak memory in MB."""

    memes: int
    told: dict[str, Any]
    wall: float
    memory: float

    @property
    def rate(self) -> float:
        """Return captions per second."""
        return self.memes / self.wall


def build_rows(data: Path, scales: Sequence[int], drawing: Path | None) -> Iterator[Row]:
    """Yield a row for each of `scales` (times the data), and for incremental builds. drawing: path of an SVG chart."""
    done: list[Built] = []
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as folder:
        catalog = real_catalog(data, Path(folder))
        for scale in scales:
            grow(catalog, scale)
            built = build(catalog, Path(folder) / "dataset")
            done.append(built)
            yield _row(built, done[0], scale)
            if scale == 1:
                yield _again("again, nothing new", build(catalog, Path(folder) / "dataset"), built)
                for where in ("at the end", "anywhere"):
                    new = _add_memes(catalog, built.memes, where)
                    yield _again(f"again, {new:,} new memes {where}", build(catalog, Path(folder) / "dataset"), built)
    if drawing is not None and len(done) > 1:
        drawing.write_text(picture([_plot("seconds", done, "wall"), _plot("MB in all processes", done, "memory")]))


def _plot(title: str, done: Sequence[Built], fact: str) -> Plot:
    line = Series(title, [(built.memes / 1e6, getattr(built, fact)) for built in done])
    return Plot(title=title, series=[line], x_label="million captions", dots=True)


def real_catalog(data: Path, folder: Path) -> Path:
    """Create a catalog of the real captions."""
    catalog = folder / "catalog.db"
    config = load_config(overrides=[f"store.documents=sqlite:///{catalog}"], environment={})
    import_dumps(config, [data / CAPTIONS], Progress())
    return catalog


def build(catalog: Path, output: Path | str, *settings: str) -> Built:
    """Build in a separate process. Raises CalledProcessError."""
    done = watched([sys.executable, "-m", "bench.dataset_worker", str(catalog), str(output), *settings])
    return Built(done.told["counts"]["memes"], done.told, done.wall, done.memory)


class Watched(NamedTuple):
    """A process that has ended: the JSON that it printed, wall seconds, and peak memory with its children in MB."""

    told: dict[str, Any]
    wall: float
    memory: float


def watched(command: Sequence[str]) -> Watched:
    """Run a command that prints JSON, in the root of the project. Raises CalledProcessError."""
    began = time.perf_counter()
    # Installed programs load bytecode, so let the first build write it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    most = 0
    while process.poll() is None:
        most = max(most, resident_kb(Path("/proc") / str(process.pid)))
        # Adding up the pages of all processes takes a fifth of a core at ten times a second.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_WATCH_SECONDS)
    wall = time.perf_counter() - began
    said = process.communicate()[0]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Watched(json.loads(said), wall, most / 1024)


def resident_kb(process: Path) -> int:
    """Return the proportional set size of a process and its children, in kB."""
    try:
        own = next(line for line in (process / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        children = [child for task in (process / "task").iterdir() for child in (task / "children").read_text().split()]
    except (OSError, StopIteration):
        return 0  # The process has just ended.
    return int(own.split()[1]) + sum(resident_kb(Path("/proc") / child) for child in children)


def grow(catalog: Path, scale: int) -> None:
    """Fill the catalog up to `scale` times its real captions with changed copies."""
    connection = sqlite3.connect(catalog)
    connection.execute("PRAGMA synchronous=OFF")
    rows = connection.execute(f"SELECT {_COLUMNS} FROM memes WHERE id NOT LIKE '%-x%' ORDER BY id").fetchall()
    words = [word for row in rows[::7] for box in json.loads(row[1])["boxes"] for word in box.split()]
    have = connection.execute("SELECT count(*) FROM memes").fetchone()[0] // len(rows)
    for copy in range(have, scale):
        chance = random.Random(copy)
        for at in range(0, len(rows), _CHUNK):
            _insert(connection, [_changed(row, copy, words, chance) for row in rows[at : at + _CHUNK]])
        connection.commit()
    connection.close()


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert memes as the catalog does, without validation."""
    last, changes = connection.execute("SELECT last, changes + 1 FROM state").fetchone()
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO memes ({_COLUMNS}, changed) VALUES ({marks}, {changes})", rows)
    connection.execute("UPDATE state SET changes = ?, last = (SELECT max(n) FROM memes)", (changes,))
    connection.execute("INSERT INTO ids SELECT id, n FROM memes WHERE n > ? ORDER BY id", (last,))
    connection.execute(
        "INSERT INTO tally SELECT ifnull(template, ''), source, flags, count(*) FROM memes WHERE n > ? GROUP BY 1, 2, 3"
        " ON CONFLICT DO UPDATE SET n = n + excluded.n",
        (last,),
    )


def _changed(row: tuple[Any, ...], copy: int, words: Sequence[str], chance: random.Random) -> tuple[Any, ...]:
    record = json.loads(row[1])
    record["id"] = f"{row[0]}-x{copy:02}"
    record["boxes"] = [
        " ".join([chance.choice(words) if chance.random() < _WORDS_CHANGED else word for word in box.split()])
        for box in record["boxes"]
    ]
    return record["id"], json.dumps(record), *row[2:]


def _add_memes(catalog: Path, memes: int, where: str) -> int:
    """Add a hundredth of the memes: ids at the end, as a crawl adds them, or among the others; return their number."""
    connection = sqlite3.connect(catalog)
    step = round(1 / _NEW_SHARE)
    rows = connection.execute(f"SELECT {_COLUMNS} FROM memes ORDER BY id LIMIT ?", (memes,)).fetchall()[::step]
    chance = random.Random(where)
    words = [word for row in rows for box in json.loads(row[1])["boxes"] for word in box.split()]
    ids = [f"imgflip:zz{n:06}" if where == "at the end" else f"{row[0]}-new" for n, row in enumerate(rows)]
    new = [_changed((key, *row[1:]), 0, words, chance) for key, row in zip(ids, rows, strict=True)]
    _insert(connection, new)
    connection.commit()
    connection.close()
    return len(new)


def _row(built: Built, first: Built, scale: int) -> Row:
    told = built.told
    figures = {
        "captions/s": f"{built.rate:,.0f}, starting Python included",
        "captions/cpu-s": f"{built.memes / told['cpu_seconds']:,.0f}",
        "MB in all processes": f"{built.memory:,.0f}",
        "seconds": ", ".join(f"{name} {seconds:,.1f}" for name, seconds in told["seconds"].items()),
        "kept": f"{told['counts']['kept']:,}",
    }
    if scale > 1:
        figures["beside the first"] = (
            f"time x {built.wall / first.wall:.1f}, memory x {built.memory / first.memory:.2f} "
            f"for data x {built.memes / first.memes:.1f}"
        )
    met = built.rate >= _RATE and built.memory < _MEMORY_MB
    load = os.getloadavg()[0]
    return Row("build", f"{built.memes:,} captions (load {load:.1f})", figures, ">= 30,000/s, < 600 MB", met)


def _again(who: str, built: Built, first: Built) -> Row:
    told = built.told
    share, cpu = built.wall / first.wall, told["cpu_seconds"] / first.told["cpu_seconds"]
    reused = {name: f"{count:,}" for name, count in told["counts"].items() if name.endswith("as they were")}
    figures = {
        "seconds": f"{built.wall:.1f}, {share:.0%} of the whole build",
        "processor seconds": f"{told['cpu_seconds']:.1f}, {cpu:.0%}",
        **reused,
        "shards": str(told["counts"]["shards"]),
    }
    return Row("build", who, figures, f"<= {_AGAIN:.0%} of the whole", share <= _AGAIN)
