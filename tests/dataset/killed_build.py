"""A build that is killed by the system at the n-th step of its output: see `test_build_killed.py`.

Run as ``python killed_build.py DATABASE OUTPUT NUMBER``. Every file operation that the output depends on is
counted, and at the one with that number the process kills itself, as kill -9 would. Ends with 0 if the
build has fewer steps.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memeloom.configs import runs
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent

_done = 0


def killed_before(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """`function`, which kills this process if it is the operation with that `number`."""

    def counted(*arguments: Any, **named: Any) -> Any:
        global _done  # noqa: PLW0603
        if _done == number:
            os.kill(os.getpid(), signal.SIGKILL)
        _done += 1
        return function(*arguments, **named)

    return counted


def main() -> None:
    database, output, number = sys.argv[1:]
    overrides = [f"store.documents=sqlite:///{database}", f"dataset.output={output}", "engine.workers=1"]
    config = load_config(
        overrides=[*overrides, "dataset.shard_records=50", "dataset.languages=[]", "dataset.min_image_side=1"],
        environment={},
    )
    # Before the builder takes it: nobody's commit in the middle of a test makes a difference.
    runs.commit = lambda: "test"
    from memeloom.dataset.build import build_dataset
    from memeloom.dataset.flow import work

    work.code_digest = lambda: "test"

    for name in ("mkdir", "rename", "replace", "unlink"):
        setattr(Path, name, killed_before(getattr(Path, name), int(number)))
    for name in ("fsync", "rmdir"):
        setattr(os, name, killed_before(getattr(os, name), int(number)))
    build_dataset(config, Silent())
    sys.stdout.write(str(_done))


main()
