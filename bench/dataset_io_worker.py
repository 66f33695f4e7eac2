"""Measure one reader and writer in its own process: `python -m bench.dataset_io_worker WAY ...`.

Prints one line of JSON. Runs in our environment or in the peers'.
"""

import argparse
import contextlib
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

_JPEG = b"\xff\xd8\xff"
_WRITES_NOTHING = "ours/records/dummy/none"


def main() -> None:
    """Write and read the records of a file several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way")
    parser.add_argument("records", type=Path, help="JSON lines")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sha256", action="store_true", help="of what was written, as part of the writing")
    parser.add_argument("--picture-bytes", type=int, default=0)
    options = parser.parse_args()
    rows = _rows(options.records, options.picture_bytes)
    write, read = _way(options.way, rows)
    written, found, size = [], [], 0
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name, _quiet():
            folder = Path(name)
            written.append(_seconds(write, folder) + (_seconds(_hash, folder) if options.sha256 else 0))
            size = sum(path.stat().st_size for path in _files(folder))
            if options.way != _WRITES_NOTHING:
                found.append(_seconds(_drain, partial(read, folder), len(rows)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"write": written, "read": found, "bytes": size, "memory_mb": memory, "records": len(rows)}))


def _way(name: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Callable[[Path], None], Callable[[Path], Any]]:
    who, kind, *details = name.split("/")
    if who == "ours":
        from bench import dataset_io_ours

        return getattr(dataset_io_ours, kind)(*details, rows)  # type: ignore[no-any-return]
    from bench import dataset_io_peers

    return getattr(dataset_io_peers, f"{who}_{kind}")(*details, rows)  # type: ignore[no-any-return]


def _rows(path: Path, picture_bytes: int) -> list[dict[str, Any]]:
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    if picture_bytes:
        noise = os.urandom(picture_bytes)
        for at, row in enumerate(rows):
            row["image"] = _JPEG + at.to_bytes(8, "big") + noise[11:]
    return rows


def _hash(folder: Path) -> None:
    for path in _files(folder):
        with path.open("rb") as stream:
            hashlib.file_digest(stream, "sha256")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts]


def _seconds(work: Callable[..., None], *arguments: Any) -> float:
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


def _drain(read: Callable[[], Iterator[Any]], expected: int) -> None:
    found = sum(1 for _ in read())
    if found != expected:
        raise SystemExit(f"{found} records came back of {expected}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep output of packages off standard output."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


if __name__ == "__main__":
    main()
