"""What a run leaves behind: its summary, its resolved settings and `run.json`."""

import platform
import resource
import subprocess
import sys
from collections.abc import Mapping
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

    counts: what was done, by name (``memes``, ``kept``, ``steps``), in the order to show.
    reasons: what was not kept, by reason.
    outputs: what it left on disk, by name.
    seconds: wall time by phase; ``total`` is the whole stage.
    """

    stage: str
    counts: Mapping[str, int | float] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def write_run(folder: Path, summary: Summary, config: Mapping[str, Any]) -> Path:
    """Write `run.json` into `folder`: summary, rates, peak memory, versions, commit and settings.

    `config` is the resolved configuration with its secrets masked.
    """
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
    """Peak resident memory of this process, in MB (the largest child counts too)."""
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    kilobytes_per_unit = 1 if sys.platform.startswith("linux") else 1 / 1024
    return round(max(usage) * kilobytes_per_unit / 1024)


def commit() -> str:
    """The commit of the checkout that this code runs from, or ``unknown``."""
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
