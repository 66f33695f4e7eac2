"""The record of a run: its summary, versions and settings in `run.json`."""

import platform
import resource
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from memeloom.configs.outputs import write_json

_REPORTED_PACKAGES = ("scrapy", "opencv-python-headless", "pymongo", "tensorflow", "keras", "pytesseract", "rapidocr")


@dataclass(frozen=True, slots=True)
class Summary:
    """What one stage did.

    Attributes:
        counts: by name (``memes``, ``kept``, ``steps``), in the order to show.
        reasons: number of items dropped, by reason.
        outputs: paths written, by name.
        seconds: wall time by phase; ``total`` is the whole stage.
    """

    stage: str
    counts: Mapping[str, int | float] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def write_run(folder: Path, summary: Summary, config: Mapping[str, Any]) -> Path:
    """Write `run.json` into `folder` and return its path. `config` is the resolved configuration, secrets masked."""
    total = summary.seconds.get("total", 0.0)
    record = {
        **asdict(summary),
        "rates_per_second": {k: round(v / total, 2) for k, v in summary.counts.items()} if total else {},
        "peak_rss_mb": peak_rss_mb(),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": commit(),
        "config": config,
    }
    path = folder / "run.json"
    write_json(path, record)
    return path


def peak_rss_mb() -> int:
    """Return the peak resident memory of this process or its largest child, in MB."""
    unit = 1024 if sys.platform.startswith("linux") else 1
    own, children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    with suppress(OSError, StopIteration):
        # On Linux ru_maxrss starts with the peak of the process that started this one.
        lines = Path("/proc/self/status").read_text().splitlines()
        own = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    return round(max(own, children) * unit / 1024**2)


def commit() -> str:
    """Return the commit of the checkout that this code runs from, or ``unknown``."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
            capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in _REPORTED_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
