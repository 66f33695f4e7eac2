"""A private Ray cluster on loopback."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

# Where Ray believes that it cannot form clusters, it listens on loopback only.
# It decides when it is imported, which no test does before all test modules are.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
os.environ.update(LOOPBACK)
_LIVES = 3
Result = TypeVar("Result")


@contextmanager
def ray_cluster(processors: int, nodes: Sequence[Mapping[str, str]] = ({},)) -> Iterator[str]:
    """A running cluster; its address.

    Args:
        processors: of each node.
        nodes: the environment of the workers on each, besides that of this process as it is now.
    """
    # Ray's sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="ml-ray-", dir="/tmp"))
    command = [
        "setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "tests.services.ray_nodes", str(folder),
        str(processors), json.dumps(nodes, default=dict),
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    said, log = folder / "address", folder / "start.log"
    # Ray writes down its address under RAY_TMPDIR, in a folder that it expects to be there.
    (folder / "ray").mkdir()
    with said.open("wb") as out, log.open("wb") as err:
        environment = {**os.environ, "PYTHONPATH": path, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
        server = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, env=environment)
        try:
            yield _first_line(said, log, server)
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


def _first_line(said: Path, log: Path, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 90
    while not (line := said.read_text()).endswith("\n"):
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
    return line.strip()
