"""Load on `memeloom serve`, from another process on loopback.

    python -m bench.serving --folder data/demo [--seconds 10] [--overload 60] [--workers 2]

FOLDER is what `memeloom demo` wrote: a catalog and a model. Drawn memes have given texts, each asked for once; captions
are those of one template each, written by the model, with and without batching. Overload sends ten times what the
server can do.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.rows import Row, print_parts

_ALONE = {"serve.batch_size": 1, "serve.batch_window_ms": 0}
_GOAL_DRAWN = 300
_GOAL_BATCHING = 3.0
_OVERLOAD = 10
# More connections than the server answers at a time.
_CROWD = 300


@dataclass(frozen=True)
class Load:
    """What clients saw. latencies: seconds of answers, sorted, by status."""

    seconds: float
    latencies: Mapping[int, Sequence[float]]

    @property
    def rate(self) -> float:
        """Return the good answers a second."""
        return len(self.latencies.get(200, ())) / self.seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the time to a good answer, in milliseconds."""
        good = self.latencies.get(200, ())
        return 1000 * good[min(len(good) - 1, int(share * len(good)))] if good else float("nan")

    @property
    def figures(self) -> dict[str, str]:
        """Return rate and times, and the other answers."""
        others = {str(status): len(found) for status, found in self.latencies.items() if status != 200}
        shown = {
            "rate": f"{self.rate:,.0f}/s",
            "p50": f"{self.quantile(0.5):.1f} ms",
            "p99": f"{self.quantile(0.99):.1f} ms",
        }
        return {**shown, **{f"status {status}:": f"{count:,}" for status, count in others.items()}}


@dataclass(frozen=True)
class Server:
    """A server process of the bench."""

    port: int
    pid: int
    templates: Sequence[str]

    def load(self, kind: str, clients: int, seconds: float, rate: float = 0) -> Load:
        """Run `bench.serving_load`."""
        command = [
            sys.executable,
            "-m",
            "bench.serving_load",
            str(self.port),
            kind,
            str(clients),
            str(seconds),
            str(rate),
        ]
        done = subprocess.run(command, input="\n".join(self.templates), capture_output=True, text=True, check=True)
        return Load(seconds, {int(status): sorted(found) for status, found in json.loads(done.stdout).items()})

    def megabytes(self) -> float:
        """Return the resident memory of all its processes."""
        return sum(_resident(pid) for pid in (self.pid, *_children(self.pid)))


def _resident(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def served(folder: Path, settings: Mapping[str, Any]) -> Iterator[Server]:
    """Start a server, wait for its model, and warm it up."""
    chosen = {
        "store.documents": f"sqlite:///{folder.resolve()}/catalog.db", "store.blobs": folder / "blobs",
        "generate.model": folder / "model", "serve.port": 0, **settings,
    }  # fmt: skip
    options = [part for key, value in chosen.items() for part in ("-s", f"{key}={value}")]
    templates = [
        each["slug"] for each in json.loads((folder / "model" / "templates.json").read_text()) if each["boxes"] > 1
    ]
    with tempfile.NamedTemporaryFile("r") as log, Path(log.name).open("w") as stream:
        process = subprocess.Popen([sys.executable, "-m", "memeloom.cli.main", "serve", *options], stderr=stream)
        try:
            while not (found := re.search(r"http://[\d.]+:(\d+)", Path(log.name).read_text())):
                if process.poll() is not None:
                    raise SystemExit(Path(log.name).read_text())
                time.sleep(0.05)
            server = Server(int(found[1]), process.pid, templates)
            _until_ready(server.port)
            server.load("images", 4, 1)
            server.load("captions", 4, 1)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _until_ready(port: int) -> None:
    for _ in range(600):
        try:
            with urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=10):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not become ready")


def drawn(folder: Path, seconds: float) -> Iterator[Row]:
    """Measure drawn JPEG memes, with one worker and with one a processor."""
    for workers in sorted({1, len(os.sched_getaffinity(0))}):
        with served(folder, {"serve.workers": workers}) as server:
            load = server.load("images", 16, seconds)
            figures = {**load.figures, "memory": f"{server.megabytes():.0f} MB"}
        many = workers > 1
        yield Row(
            "drawn memes", f"{workers} worker{'s' * many}", figures,
            f"≥ {_GOAL_DRAWN}/s" if many else "", load.rate >= _GOAL_DRAWN if many else None,
        )  # fmt: skip


def captions(folder: Path, seconds: float) -> Iterator[Row]:
    """Measure live captions of 1, 8 and 32 clients, with and without batching."""
    alone: dict[int, Load] = {}
    for settings, who in ((_ALONE, "one at a time"), ({}, "batched")):
        with served(folder, settings) as server:
            for clients in (1, 8, 32):
                load = server.load("captions", clients, seconds)
                goal, met = "", None
                if not settings and clients == 32:
                    gain = load.rate / alone[32].rate
                    goal, met = f"≥ {_GOAL_BATCHING:g} × one at a time ({gain:.1f} ×)", gain >= _GOAL_BATCHING
                elif settings:
                    alone[clients] = load
                yield Row("captions", f"{who}, {clients} clients", load.figures, goal, met)


def overload(folder: Path, seconds: float) -> Iterator[Row]:
    """Measure captions at ten times the rate that the server can do."""
    with served(folder, {}) as server:
        at_capacity = server.load("captions", 64, 10)
        yield Row("overload", "as many clients as it serves at a time", at_capacity.figures)
        before = server.megabytes()
        load = server.load("captions", _CROWD, seconds, _OVERLOAD * at_capacity.rate)
        grown = server.megabytes() - before
    offered = sum(map(len, load.latencies.values())) / seconds
    figures = {
        "offered": f"{offered:,.0f}/s ({offered / at_capacity.rate:.1f} ×)", **load.figures,
        "memory": f"{before:.0f} MB {grown:+.0f} MB",
    }  # fmt: skip
    calm = grown < 30 and set(load.latencies) <= {200, 503} and load.quantile(0.99) < 2 * at_capacity.quantile(0.99)
    yield Row("overload", f"{_CROWD} clients, {seconds:g} s", figures, "memory flat, p99 kept, only 503", calm)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("data/demo"), help="what `memeloom demo` wrote")
    parser.add_argument("--seconds", type=float, default=10, help="how long each row is measured")
    parser.add_argument("--overload", type=float, default=60, help="how long the server is overloaded")
    options = parser.parse_args()
    if not (options.folder / "model" / "model.json").exists():
        raise SystemExit(f"{options.folder}: no demo here; run `memeloom demo` first")
    parts = {
        "drawn": lambda: drawn(options.folder, options.seconds),
        "captions": lambda: captions(options.folder, options.seconds),
        "overload": lambda: overload(options.folder, options.overload),
    }
    print_parts("memeloom serve, load from another process", list(parts), lambda part: parts[part]())


if __name__ == "__main__":
    main()
