"""How fast, in how much memory and how safely dumps come into SQLite: `python bench/import_dump.py --data DIR`.

DIR holds `imgflip_captions.jsonl.gz`. Everything runs on one core, each import in a process of its
own. The import that is killed gets SIGKILL when about half of the captions are stored; then it is
run again, and every caption of the file must be in the catalog, once and as the file has it.
"""

import argparse
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zstandard
from rich.console import Console
from rich.table import Table

from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.scrapers.dumps.transfer import export_memes, import_dumps

DUMP = "imgflip_captions.jsonl.gz"
TARGET = 20_000


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    counts: dict[str, int]
    seconds: float
    cpu_seconds: float | None = None
    rss_mb: int | None = None


def work(verb: str, path: Path, catalog: Path) -> Row:
    """Import or export in a fresh process on the core of this one."""
    done = subprocess.run([*_command(verb, path, catalog)], capture_output=True, text=True, check=True, timeout=600)
    answer = json.loads(done.stdout)
    return Row(verb, answer["counts"], answer["seconds"], answer["cpu_seconds"], answer["rss_mb"])


def be_worker(verb: str, path: Path, catalog: Path) -> None:
    """What a fresh process does: one import or export, and its numbers as JSON."""
    config = load_config(overrides=[f"store.documents=sqlite:///{catalog}"], environment={})
    run = {
        "import": lambda: import_dumps(config, [path], Silent()),
        "export": lambda: export_memes(config, path, Silent()),
    }
    summary = run[verb]()
    # Not ru_maxrss: that starts with the peak of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    answer = {
        "counts": summary.counts,
        "seconds": summary.seconds["total"],
        "cpu_seconds": time.process_time(),
        "rss_mb": int(peak[1]) // 1024 if peak else None,
    }
    sys.stdout.write(json.dumps(answer))


def kill_halfway(path: Path, catalog: Path, rows: int) -> Row:
    """Start an import, kill it when half is stored, and say what the catalog kept."""
    begun = time.monotonic()
    child = subprocess.Popen(_command("import", path, catalog), stdout=subprocess.DEVNULL)
    while child.poll() is None and _stored(catalog) < rows // 2:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    return Row("import, kill -9 at half", {"inserted": _stored(catalog)}, time.monotonic() - begun)


def check(dump: Path, catalog: Path) -> int:
    """Compare the catalog with the file, caption by caption; the number of captions that are right."""
    config = load_config(overrides=[f"store.documents=sqlite:///{catalog}"], environment={})
    with closing(open_documents(config.store)) as documents:
        stored = {meme.id: meme.boxes for meme in documents.scan()}
    expected = {f"imgflip:{row['post'].rsplit('/', 1)[1]}": tuple(row["boxes"]) for row in _rows(dump)}
    if stored != expected:
        raise SystemExit(f"wrong: {len(stored)} memes stored, {len(expected)} expected, or their texts differ")
    return len(stored)


def main() -> None:
    """Measure, check and print the table; exit code 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        be_worker(arguments.worker[0], arguments.data, Path(arguments.worker[1]))
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    dump = arguments.data / DUMP
    with tempfile.TemporaryDirectory() as name:
        rows, right = measure(dump, Path(name))
    table = Table(title=f"{DUMP}, {right} captions, one core")
    for column in ("", "new", "same", "s", "CPU s", "captions/CPU s", "MB"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        handled = row.counts.get("captions") or row.counts.get("memes")
        shown = (
            row.counts.get("inserted"),
            row.counts.get("unchanged"),
            f"{row.seconds:.2f}",
            f"{row.cpu_seconds:.2f}" if row.cpu_seconds else None,
            f"{handled / row.cpu_seconds:,.0f}" if handled and row.cpu_seconds else None,
            row.rss_mb,
        )
        table.add_row(row.what, *("" if value is None else str(value) for value in shown))
    Console(width=100).print(table)
    # By the processor's clock, so that a busy machine does not change the verdict; on an idle one both agree.
    if right / (rows[0].cpu_seconds or rows[0].seconds) < TARGET:
        raise SystemExit(f"below the target of {TARGET:,} captions/s")


def measure(dump: Path, folder: Path) -> tuple[list[Row], int]:
    """All rows of the table, and how many captions the file holds."""
    first, killed = folder / "first.db", folder / "killed.db"
    array = folder / "array.json.zst"
    with zstandard.open(array, "wb") as stream:
        stream.write(json.dumps(list(_rows(dump))).encode())
    rows = [_named("import, JSONL .gz", work("import", dump, first))]
    right = check(dump, first)
    rows += [
        _named("import again", work("import", dump, first)),
        _named("export, .zst", work("export", folder / "export.jsonl.zst", first)),
        _named("import of the export", work("import", folder / "export.jsonl.zst", folder / "second.db")),
        _named("import, one JSON array, .zst", work("import", array, folder / "array.db")),
        kill_halfway(dump, killed, right),
        _named("import after the kill", work("import", dump, killed)),
    ]
    for catalog in (killed, folder / "array.db", folder / "second.db"):
        check(dump, catalog)
    return rows, right


def _named(what: str, row: Row) -> Row:
    return replace(row, what=what)


def _command(verb: str, path: Path, catalog: Path) -> list[str]:
    return [sys.executable, __file__, "--data", str(path), "--worker", verb, str(catalog)]


def _rows(dump: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(dump, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _stored(catalog: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT COUNT(*) FROM memes").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


if __name__ == "__main__":
    main()
