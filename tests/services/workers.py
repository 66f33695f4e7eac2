"""Processes that use a store and may be killed: `python -m tests.services.workers JOB STORE [ARGUMENTS]`.

Each prints what the store has acknowledged, one JSON value a line.
"""

import base64
import contextlib
import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.documents import StoredSketch
from memeloom.catalog.errors import StoreError
from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.schema import Store

_WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def start(job: str, store: Store, *arguments: object, inside: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start a worker process; `inside` is a command that runs it, such as `unshare`."""
    packed = base64.b64encode(pickle.dumps(store)).decode()
    command = [*inside, sys.executable, "-m", "tests.services.workers", job, packed, *map(str, arguments)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def running(job: str, store: Store, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Yield a worker that is killed at the end of the block."""
    with start(job, store, *arguments) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def result(worker: subprocess.Popen[str], seconds: float = 120) -> list[Any]:
    """Wait until a worker has ended; return the values it printed."""
    said, _ = worker.communicate(timeout=seconds)
    assert worker.returncode == 0, f"the worker ended with {worker.returncode}: {said[-500:]}"
    return [json.loads(line) for line in said.splitlines()]


def killed(worker: subprocess.Popen[str], after_lines: int, then_seconds: float) -> list[Any]:
    """Kill -9 a worker some time after it printed a number of lines; return the values it printed."""
    assert worker.stdout is not None
    said = list(itertools.islice(worker.stdout, after_lines))
    time.sleep(then_seconds)
    worker.kill()
    rest, _ = worker.communicate()
    # The kill may cut off the last line.
    lines = ("".join(said) + rest).split("\n")[:-1]
    return [json.loads(line) for line in lines]


def batch_of(writer: str, number: int, size: int) -> list[Meme]:
    """Return the memes that `upsert` writes as batch `number`."""
    return [
        Meme(id=f"test:{writer}-{number:05}-{i:03}", source="test", boxes=(f"box {i}", "x" * 300), fetched_at=_WHEN)
        for i in range(size)
    ]


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _upsert(store: Store, writer: str, size: str) -> None:
    """Write batches until killed."""
    documents = open_documents(store)
    for number in itertools.count():
        documents.upsert(batch_of(writer, number, int(size)))
        _print(number)


def _sketch(store: Store, size: str) -> None:
    """Write sketches until killed, a number of them for each template."""
    documents = open_documents(store)
    for number in itertools.count():
        data = str(number).encode() * 500
        documents.put_sketches(StoredSketch(str(number), f"test:{i}", data) for i in range(int(size)))
        _print(number)


def _put(store: Store, size: str) -> None:
    """Store blobs until killed."""
    blobs = open_blobs(store)
    while True:
        data = os.urandom(int(size))
        _print(["putting", blob_key(data)])
        _print(["put", blobs.put(data)])


def _fill_documents(store: Store, mount: str, size: str) -> None:
    """Fill a small disk; print the error, what was acknowledged and what is there."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mount], check=True)
    documents = open_documents(store)
    acknowledged = 0
    try:
        for number in range(1000):
            acknowledged += documents.upsert(batch_of("full", number, 500)).inserted
    except StoreError as error:
        _print([type(error).__name__, str(error)])
    _print([acknowledged, documents.count()])
    documents.close()
    reopened = open_documents(store)
    _print([sum(1 for _ in reopened.scan()), reopened.count()])


def _fill_blobs(store: Store, mount: str, size: str) -> None:
    """Fill a small disk; print the error, and whether every acknowledged blob can be read."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mount], check=True)
    blobs = open_blobs(store)
    keys: list[str] = []
    try:
        keys.extend(blobs.put(os.urandom(number * 10_000)) for number in range(1, 1000))
    except StoreError as error:
        _print([type(error).__name__, str(error)])
    left = [p.name for p in Path(store.blobs).rglob("*") if p.is_file() and p.name not in keys]
    _print([len(keys), sorted(keys) == list(blobs.keys()), all(blob_key(blobs.get(key)) == key for key in keys), left])


_JOBS: dict[str, Callable[..., None]] = {
    "upsert": _upsert, "sketch": _sketch, "put": _put, "fill_documents": _fill_documents, "fill_blobs": _fill_blobs,
}  # fmt: skip

if __name__ == "__main__":
    _JOBS[sys.argv[1]](pickle.loads(base64.b64decode(sys.argv[2])), *sys.argv[3:])
