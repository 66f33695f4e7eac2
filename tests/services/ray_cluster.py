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
    server, folder, address = _started(processors, nodes)
    try:
        yield address
    finally:
        _end(server, folder)


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


def _started(processors: int, nodes: Sequence[Mapping[str, str]]) -> tuple[subprocess.Popen[bytes], Path, str]:
    """The process of a running cluster, its folder, and its address.

    A cluster that did not come up on a busy machine is started anew.
    """
    for life in range(_LIVES):
        # Ray's sockets need a short path.
        folder = Path(tempfile.mkdtemp(prefix="ml-ray-", dir="/tmp"))
        server = _start(folder, processors, nodes)
        try:
            return server, folder, _first_line(folder, server)
        except BaseException as error:
            _end(server, folder)
            if life == _LIVES - 1 or not isinstance(error, AssertionError):
                raise
    raise AssertionError


def _start(folder: Path, processors: int, nodes: Sequence[Mapping[str, str]]) -> subprocess.Popen[bytes]:
    command = [
        "setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "tests.services.ray_nodes", str(folder),
        str(processors), json.dumps(nodes, default=dict),
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    # Ray writes down its address under RAY_TMPDIR, in a folder that it expects to be there.
    (folder / "ray").mkdir()
    with (folder / "address").open("wb") as out, (folder / "start.log").open("wb") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, env=environment)


def _first_line(folder: Path, server: subprocess.Popen[bytes]) -> str:
    said, log = folder / "address", folder / "start.log"
    deadline = time.monotonic() + 90
    while not (line := said.read_text()).endswith("\n"):
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
    return line.strip()


def _end(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.terminate()
    server.wait(60)
    shutil.rmtree(folder, ignore_errors=True)
