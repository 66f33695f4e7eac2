"""A training that is killed again and again, beside one that nobody touched: `python -m bench.resume`.

Both train `causal` (or what `--model` says) on one dataset; one of them is killed (kill -9) at random moments and
started again. What is printed is how far apart they come out: rows of the history, and all that a checkpoint holds.
Exit code 1: it was not killed as often as it should have been.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from memeloom.configs.load import load_config, write_config
from memeloom.train.contract import KindName

_TRAIN = "from memeloom.cli.main import main; main()"
_DEADLINE_SECONDS = 900
# So that some hundred steps are a matter of a minute on a CPU.
_SMALL = {
    "convnet": (
        "train.convnet.filters=64", "train.convnet.batch=64", "train.convnet.schedule=cosine",
        "train.convnet.warmup_steps=20", "train.convnet.clip_norm=1.0",
    ),
    "gpt2": ("train.gpt2.preset=tiny", "train.gpt2.learning_rate=0.004"),
}  # fmt: skip
_CURVE = ("loss", "accuracy", "validation_loss", "validation_accuracy", "learning_rate")


def main() -> None:
    """Train twice, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="a dataset of `memeloom build-dataset`")
    parser.add_argument("--model", choices=get_args(KindName), default="causal")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        settings = [
            f"train.dataset={options.dataset.absolute()}",
            f"train.steps={options.steps}",
            f"train.steps_per_epoch={max(options.steps // 10, 1)}",
            "train.validation_batches=4",
            f"train.model={options.model}",
            *_SMALL.get(options.model, ()),
            f"runs={folder / 'runs'}",
            *options.set,
        ]
        began = time.monotonic()
        calm = _train(folder, "undisturbed", settings, [])
        seconds = time.monotonic() - began
        chance = random.Random(options.seed)
        # Within the time that the undisturbed one took, shared among all lives.
        moments = [chance.uniform(0.25, 1.0) * seconds / 2 for _ in range(options.kills)]
        killed = _train(folder, "killed", settings, moments)
        _print(folder, seconds, calm, killed)
        if killed < options.kills:
            raise SystemExit(f"it was over before {options.kills} kills: ask for more --steps")


def _train(folder: Path, name: str, settings: list[str], moments: list[float]) -> int:
    """Train into `folder`/`name`, killed after each of `moments` seconds; how many kills it was alive for."""
    path = folder / f"{name}.yaml"
    write_config(path, load_config(None, [*settings, f"train.output={folder / name}"], {}))
    for met, moment in enumerate([*moments, _DEADLINE_SECONDS]):
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _TRAIN, "--config", str(path), "train"],
                stdout=log, stderr=log, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )  # fmt: skip
            try:
                code = process.wait(moment)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                continue
        if code:
            raise SystemExit((folder / f"{name}.log").read_text())
        return met
    raise SystemExit(f"{name} was not over after {_DEADLINE_SECONDS} s")


def _print(folder: Path, seconds: float, calm: int, killed: int) -> None:
    rows = [
        [json.loads(line) for line in (folder / name / "history.jsonl").read_text().splitlines()]
        for name in ("undisturbed", "killed")
    ]
    arrays = [_arrays(folder / name / "checkpoint.npz") for name in ("undisturbed", "killed")]
    furthest = max(float(np.abs(one.astype(np.float64) - other).max()) for one, other in zip(*arrays, strict=True))
    curve = max(abs(one[name] - other[name]) for one, other in zip(*rows, strict=True) for name in _CURVE)
    same = all(one.tobytes() == other.tobytes() for one, other in zip(*arrays, strict=True))
    table = Table("what", "value", title="A training killed at random moments, and one that was not")
    table.add_row("steps, epochs", f"{rows[0][-1]['step']:,}, {len(rows[0])}")
    table.add_row("seconds undisturbed", f"{seconds:.0f}")
    table.add_row("kills", f"{killed} (undisturbed: {calm})")
    table.add_row("arrays of the state (weights, optimizer, random generators)", f"{len(arrays[0])}")
    table.add_row("largest difference of the loss curve", f"{curve:g}")
    table.add_row("largest difference in the state", f"{furthest:g}")
    table.add_row("equal to the last bit", "yes" if same and curve == 0 else "no")
    Console(width=120).print(table)


def _arrays(path: Path) -> list[np.ndarray]:
    """The state, without what is told about it."""
    with np.load(path, allow_pickle=False) as held:
        return [held[name] for name in held.files if name != "arr_0"]


if __name__ == "__main__":
    main()
