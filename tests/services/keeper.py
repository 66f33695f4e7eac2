"""One server for all workers of a test run: the first that needs it starts it, and it ends with the run.

A server must outlive the worker that started it, so a separate process keeps it: it starts the server, prints its
address, and waits until the run's controlling process ends (a pidfd tells it, even after kill -9).
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.services.binaries import ServerError
from tests.services.ceph import Cluster
from tests.services.mongod import Mongod
from tests.services.redis import DATABASES, RedisServer

_START_SECONDS = 1200


def shared(kind: str, run: str, controller: int) -> dict[str, Any]:
    """Return the address of the `kind` server (`mongo`, `s3`, `redis`) of test run `run`; start it if needed.

    It ends with the process `controller`.
    """
    folder = Path(tempfile.gettempdir()) / f"ml-run-{os.getuid()}-{run[:12]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    answer = folder / f"{kind}.json"
    with (folder / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            answer.write_text(_spawn(kind, folder, controller))
    place: dict[str, Any] = json.loads(answer.read_text())
    if "error" in place:
        raise ServerError(f"{kind}: {place['error']}")
    return place


def _spawn(kind: str, folder: Path, controller: int) -> str:
    command = [sys.executable, "-m", "tests.services.keeper", kind, str(folder), str(controller)]
    with (folder / f"{kind}.log").open("wb") as log:
        keeper = subprocess.Popen(
            command, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    assert keeper.stdout is not None
    ready, _, _ = select.select([keeper.stdout], [], [], _START_SECONDS)
    line = keeper.stdout.readline() if ready else b""
    keeper.stdout.close()
    if not line:
        keeper.kill()
        keeper.wait()
        return json.dumps({"error": (folder / f"{kind}.log").read_text(errors="replace").strip()[-500:]})
    # Nobody waits for it: it ends after the run.
    keeper.returncode = 0
    return line.decode()


def _keep(kind: str, folder: Path, controller: int) -> None:
    """Keep one server until the controlling process has ended."""
    watch = os.pidfd_open(controller)
    server: Cluster | Mongod | RedisServer
    if kind == "s3":
        server = Cluster()
        place = asdict(server.access)
    else:
        server = Mongod() if kind == "mongo" else RedisServer(appendonly="no", databases=str(DATABASES))
        place = {"port": server.port}
    try:
        os.write(1, json.dumps(place).encode() + b"\n")
        select.select([watch], [], [])
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
