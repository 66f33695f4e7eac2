"""Run crawlers and servers, crawlers on the first available processor and servers on the second; measure both."""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.redis import DATABASES, RedisServer, flush

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-bench" / "bin" / "python"
_DEADLINE_SECONDS = 600
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Run:
    """A finished process tree. memory_mb: common peak, shared pages counted once. answer: the last JSON it printed."""

    cpu_seconds: float
    seconds: float
    memory_mb: float
    answer: dict[str, Any]


@dataclass
class Series:
    """The figures of one crawler, one per round."""

    rates: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    redis_cpu_seconds: list[float] = field(default_factory=list)
    start_cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Return the median rate."""
        return statistics.median(self.rates)


class Measured:
    """A process that is measured from its start until `wait`."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None, *, pinned: bool = True) -> None:
        self._began = time.monotonic()
        self._command = command
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed by `wait`
        self._process = subprocess.Popen(
            ["taskset", "--cpu-list", str(cores()[0]), *command] if pinned else command,
            cwd=ROOT, env={**os.environ, **(environment or {})}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._peak = 0.0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def wait(self) -> Run:
        """Return the figures, or raise SystemExit with the output if it failed. Wait for one process at a time."""
        before = _reaped_cpu_seconds()
        try:
            code = self._process.wait(_DEADLINE_SECONDS)
        finally:
            self._over.set()
            self._watcher.join()
        seconds = time.monotonic() - self._began
        self._output.seek(0)
        words = self._output.read()
        self._output.close()
        if code:
            raise SystemExit(f"{' '.join(self._command[:6])} ended with {code}:\n{words[-2000:]}")
        last = words.strip().rpartition("\n")[2]
        answer = json.loads(last) if last.startswith("{") else {}
        return Run(_reaped_cpu_seconds() - before, seconds, self._peak, answer)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._peak = max(self._peak, sum(_memory_mb(process) for process in _session(self._process.pid)))


def crawl(kind: str, start_url: str, folder: Path, *options: str, pinned: bool = True) -> Measured:
    """Start a crawl by `bench.crawl_worker`, for peers in their environment."""
    python = str(PEERS) if kind == "scrapy-redis" else sys.executable
    return Measured(
        [python, "-m", "bench.crawl_worker", kind, start_url, "--folder", str(folder), *options], pinned=pinned
    )


@contextlib.contextmanager
def site(pages: int, pictures: Path | None = None) -> Iterator[str]:
    """Run `bench.crawl_site` and yield its address."""
    command = [sys.executable, "-m", "bench.crawl_site", str(pages), *([str(pictures)] if pictures else [])]
    server = subprocess.Popen(
        ["taskset", "--cpu-list", str(cores()[1]), *command],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


class Redis(RedisServer):
    """A redis-server with the durability that a crawl needs, on the processor for servers."""

    def __init__(self) -> None:
        self._database = 0
        super().__init__(appendfsync="everysec", databases=str(DATABASES))

    def command(self) -> list[str]:
        """Return the command that runs the server."""
        return ["taskset", "--cpu-list", str(cores()[1]), *super().command()]

    def fresh(self) -> str:
        """Return the URL of an emptied database."""
        self._database = (self._database + 1) % DATABASES
        flush(self.port, self._database)
        return self.url(database=self._database)

    def cpu_seconds(self) -> float:
        """Return the server's processor time since its start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cores() -> tuple[int, int]:
    """Return the processors for crawlers and for servers; the same one if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[min(1, len(allowed) - 1)]


def _reaped_cpu_seconds() -> float:
    """Return the processor time of all ended child processes; running servers do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _session(leader: int) -> list[Path]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == leader:
                    found.append(folder)
    return found


def _memory_mb(process: Path) -> float:
    """Return the proportional set size: a page shared by two processes counts half in each."""
    with contextlib.suppress(OSError):
        for line in (process / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
