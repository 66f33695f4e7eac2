"""A private Ray cluster of one node on loopback."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.services.process import free_port

# Where Ray believes that it cannot form clusters, it listens on loopback only.
# It decides when it is imported, which no test does before all test modules are.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
os.environ.update(LOOPBACK)
_LIVES = 3
Result = TypeVar("Result")


@contextmanager
def ray_cluster(processors: int) -> Iterator[str]:
    """A running cluster; its address. Its workers have the environment of this process as it is now."""
    # Ray's sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="ml-ray-", dir="/tmp"))
    port = free_port()
    command = [
        "setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "ray.scripts.scripts", "start", "--head",
        "--block", "--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={free_port()}",
        "--include-dashboard=false", "--disable-usage-stats", f"--num-cpus={processors}",
        # The ports of its workers are whichever the system gives: from Ray's own range another test may have one.
        "--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=100000000", f"--temp-dir={folder}",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, (folder / "start.log").open("wb") as log:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait_for(folder / "start.log", "Ray runtime started", server)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def in_own_process(work: Callable[..., Result], *arguments: object) -> Result:
    """What `work` returns, done in a process that Ray may end.

    Ray ends the process that joined a cluster when the node is too busy to answer it in time. A stage that
    was ended is started again, as after any other end.
    """
    for life in range(_LIVES):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            try:
                return process.submit(work, *arguments).result()
            except BrokenProcessPool:
                if life == _LIVES - 1:
                    raise
    raise AssertionError


def _wait_for(log: Path, text: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while text not in (said := log.read_text(errors="replace")):
        assert server.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
