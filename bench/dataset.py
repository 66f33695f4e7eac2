"""Build a dataset of the real captions and print what it took and what became of them, as one table.

python -m bench.dataset --data ../shared/data
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from configs.load import load_config
from configs.progress import Silent
from configs.runs import Summary
from configs.schema import Config
from dataset.build import build_dataset
from dataset.verify import verify_dataset
from scrapers.dumps import import_dumps

_CAPTIONS = "imgflip_captions.jsonl.gz"


def main() -> None:
    """Import the captions into an empty catalog, build, verify, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder that holds {_CAPTIONS}")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in the command line"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = [f"store.documents=sqlite:///{folder}/catalog.db", f"dataset.output={folder}/dataset"]
        config = load_config(overrides=[*places, *options.set], environment={})
        import_dumps(config, [options.data / _CAPTIONS], Silent())
        summary, peak = _measured(config)
        began = time.perf_counter()
        verify_dataset(Path(config.dataset.output))
        verifying = time.perf_counter() - began
    _print(summary, peak, verifying)


def _measured(config: Config) -> tuple[Summary, float]:
    """The summary of a build, and the most memory that all its processes held together, in MB."""
    with _peak_memory() as seen:
        summary = build_dataset(config, Silent())
    return summary, max(seen) / 1024


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    """Collect the resident kilobytes of this process and its children, ten times a second."""
    seen = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            seen.append(_resident(Path("/proc/self")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def _resident(process: Path) -> int:
    """The proportional set of a process and its children in kilobytes, so that shared pages count once."""
    try:
        own = next(line for line in (process / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        children = [child for task in (process / "task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return 0  # it has just ended
    return int(own.split()[1]) + sum(_resident(Path("/proc") / child) for child in children)


def _print(summary: Summary, peak: float, verifying: float) -> None:
    memes, total = summary.counts["memes"], summary.seconds["total"]
    table = Table("what", "number", title=f"A dataset of {memes:,} captions")
    table.columns[1].justify = "right"
    for phase, seconds in summary.seconds.items():
        table.add_row(f"seconds: {phase}", f"{seconds:.1f}")
    table.add_row("seconds: verify afterwards", f"{verifying:.1f}")
    table.add_row("captions/s", f"{memes / total:,.0f}")
    table.add_row("peak memory of all processes, MB", f"{peak:,.0f}", end_section=True)
    for name, count in summary.counts.items():
        table.add_row(name, f"{count:,}")
    table.add_section()
    for reason, count in summary.reasons.items():
        table.add_row(f"dropped: {reason}", f"{count:,}  {100 * count / memes:5.2f} %")
    Console().print(table)


if __name__ == "__main__":
    main()
