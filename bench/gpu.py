"""Train the conv net, `causal`, `transformer` and a new, small `hub` on one GPU on JAX; `bench/gpu.sh` runs it.

Trains as `memeloom train` does and reads `history.jsonl`. "Seconds until" counts training steps, compilation included,
without validation. No step starts after --minutes, so slow compiling and reading shorten the last runs.
Without a GPU, or with --small, the table says so: the figures then only show that everything runs. Exits with 1 if a
model was left out.
"""

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.progress import Progress
from memeloom.configs.schema_models import Train
from memeloom.train.backend import ACCELERATED, BACKEND, keras
from memeloom.train.convnet.model import build_convnet
from memeloom.train.fit import Interrupted, train_model
from memeloom.train.transformer.shape import EXPANSION, width

# Validation accuracy of the Imgflip article after its four epochs.
ARTICLE = 0.6055
# Dense bf16, a multiply-add counted as two; from NVIDIA's data sheets, in FLOP/s.
_PEAKS = {"H200": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12}
_FILTERS, _SMALL_FILTERS = 1024, 32
_DEPTH, _SMALL_DEPTH = 8, 1
# Characters of a row that `transformer` trains on.
_ROW = 256
_SECONDS, _SMALL_SECONDS = 100, 12


class Run(NamedTuple):
    """The history of a training, a row per epoch."""

    rows: list[dict[str, Any]]
    unit: str

    @property
    def rate(self) -> float:
        """Return units per second of the fastest epoch."""
        return max((row[f"{self.unit}_per_second"] for row in self.rows), default=0.0)

    @property
    def best(self) -> float:
        """Return the best validation accuracy."""
        return max((row["validation_accuracy"] for row in self.rows), default=0.0)

    def seconds_until(self, accuracy: float) -> float | None:
        """Return training seconds until validation accuracy passes `accuracy`; None if it never does."""
        seconds = 0.0
        for row in self.rows:
            seconds += float(row["seconds"])
            if row["validation_accuracy"] > accuracy:
                return seconds
        return None


class _Deadline(Progress):
    """Interrupts a training a number of seconds after its first step, or at `latest` if that is sooner."""

    def __init__(self, seconds: float, latest: float) -> None:
        self._seconds, self._end = seconds, latest

    def start(self, stage: str, total: int | None, unit: str) -> None:  # noqa: ARG002  (as Progress)
        """Start the clock when everything is compiled."""
        if stage == "train":
            self._end = min(self._end, time.monotonic() + self._seconds)

    def advance(self, n: int = 1, **counts: int) -> None:  # noqa: ARG002  (as Progress)
        if time.monotonic() > self._end:
            raise KeyboardInterrupt


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=Path(".gpu/dataset"), help="a dataset of captions")
    parser.add_argument("--seconds", type=float, help=f"for each model ({_SECONDS}; small: {_SMALL_SECONDS})")
    parser.add_argument("--minutes", type=float, default=8, help="for everything (8)")
    parser.add_argument("--small", action="store_true", help="small models and short epochs, for a CPU")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting: train.causal.units=512"
    )
    options = parser.parse_args()
    began = time.monotonic()
    seconds = options.seconds or (_SMALL_SECONDS if options.small else _SECONDS)
    console = Console(width=120)
    card = _card()
    console.print(f"device: {card}; Keras {keras.__version__} on {BACKEND}; {seconds:.0f} s for each model")
    if options.small or not ACCELERATED:
        console.print("NOT a measurement of a GPU: small models" if options.small else "NOT a measurement: no GPU here")
    models, runs = _settings(options), dict[str, Run]()
    with tempfile.TemporaryDirectory() as scratch:
        for model, settings in models.items():
            try:
                deadline = _Deadline(seconds, began + 60 * options.minutes)
                runs[model] = _trained(model, settings, options, Path(scratch) / model, deadline)
            except (MemeloomError, ModuleNotFoundError) as error:
                console.print(f"{model}: left out: {error}")
    own = load_config(None, [*(each for settings in models.values() for each in settings), *options.set], {}).train
    table = Table(title="one device, JAX", title_justify="left", show_header=False)
    for what, figure in _figures(runs, card, own):
        table.add_row(what, figure)
    table.add_row("all of it, minutes", f"{(time.monotonic() - began) / 60:.1f}")
    console.print(table)
    for model, run in runs.items():
        for sample in run.rows[-1]["samples"] if run.rows else ():
            console.print(f"{model}: {sample}", markup=False, highlight=False)
    if len(runs) < len(models):
        raise SystemExit(1)


def _card() -> str:
    import jax

    return str(jax.devices()[0].device_kind)


def _settings(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the settings that differ from the defaults, by model. Epochs are short for a finer history."""
    precision = ["train.precision=mixed_bfloat16"] if ACCELERATED else []
    convnet_epoch, epoch = (10, 10) if options.small else (500, 200)
    return {
        "convnet": [
            f"train.convnet.filters={_SMALL_FILTERS if options.small else _FILTERS}",
            f"train.convnet.batch={64 if options.small else 2048}",
            f"train.steps_per_epoch={convnet_epoch}",
            *precision,
        ],
        "causal": [f"train.steps_per_epoch={epoch}", *precision],
        "transformer": [
            f"train.transformer.depth={_SMALL_DEPTH if options.small else _DEPTH}",
            f"train.transformer.batch={8 if options.small else 64}",
            f"train.steps_per_epoch={epoch}",
            *precision,
        ],
        "hub": [
            "train.hub.preset=tiny",
            "train.hub.learning_rate=0.004",
            f"train.hub.batch={16 if options.small else 256}",
            f"train.steps_per_epoch={epoch}",
            *precision,
        ],
    }


def _trained(model: str, settings: list[str], options: argparse.Namespace, output: Path, deadline: _Deadline) -> Run:
    more = [
        f"train.model={model}",
        f"train.dataset={options.dataset}",
        f"train.output={output}",
        "train.steps=1000000",  # until the deadline
        "train.patience=1000000",
        f"train.validation_batches={2 if options.small else 20}",
        f"train.samples_per_epoch={1 if options.small else 3}",
        *(f"train.{model}.{key}" for key in ("schedule=constant", "warmup_steps=50")),
    ]
    config = load_config(None, [*more, *settings, *options.set], {})
    with contextlib.suppress(Interrupted):
        train_model(config, deadline)
    lines = output / "history.jsonl"
    rows = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    unit = (
        next((key.removesuffix("_per_second") for key in rows[-1] if key.endswith("_per_second")), "") if rows else ""
    )
    return Run(rows, unit)


def _figures(runs: Mapping[str, Run], card: str, own: Train) -> Iterator[tuple[str, str]]:
    for model, run in runs.items():
        yield f"{model}, {run.unit or 'no epoch was completed'} a second", f"{run.rate:,.0f}"
        yield f"{model}, share of time without a batch", f"{_waiting(run):.1%}"
        yield f"{model}, best validation accuracy", f"{run.best:.4f} after {len(run.rows)} epochs"
    if convnet := runs.get("convnet"):
        shape = own.convnet.model_dump(include={"filters", "embedding", "sequence_length", "dropout"})
        flops = training_flops(build_convnet(70, **shape, seed=1))
        yield f"convnet, {own.convnet.filters} filters, GFLOP an example", f"{flops / 1e9:.3f}"
        yield "convnet, TFLOP/s, and share of the card's bf16 peak", _share(convnet.rate * flops, card)
    if (transformer := runs.get("transformer")) and transformer.rows:
        last = transformer.rows[-1]
        # Names and padding are computed, too.
        computed = own.transformer.batch * _ROW * last["step"] / last["characters"]
        flops = transformer_flops(own.transformer.depth) * computed
        yield f"transformer, depth {own.transformer.depth}, GFLOP a character", f"{flops / 1e9:.3f}"
        yield "transformer, TFLOP/s, and share of the card's bf16 peak", _share(transformer.rate * flops, card)
    goals = {f"{ARTICLE}": ARTICLE}
    if convnet and convnet.rows:
        goals[f"the conv net's best, {convnet.best:.4f}"] = convnet.best
    for model in ("causal", "transformer"):
        for name, goal in goals.items() if model in runs else ():
            reached = runs[model].seconds_until(goal)
            yield f"{model}, seconds until it passes {name}", "not reached" if reached is None else f"{reached:.1f}"


def _share(rate: float, card: str) -> str:
    """Describe a rate in FLOP/s."""
    peak = next((figure for name, figure in _PEAKS.items() if name in card), None)
    share = f"{rate / peak:.1%} of {peak / 1e12:,.0f} TFLOP/s" if peak else "its peak is not known here"
    return f"{rate / 1e12:.2f}, {share}"


def _waiting(run: Run) -> float:
    seconds = sum(row["seconds"] for row in run.rows)
    return sum(row["waiting"] * row["seconds"] for row in run.rows) / seconds if seconds else 0.0


def training_flops(network: Any) -> int:
    """Return the floating-point operations of a training step on one example in the products of `network`.

    A multiply-add counts as two. Each product is computed three times: forward, and for the gradients of weights and
    input, which the first layer does not need.
    """
    products = [layer for layer in network.layers if isinstance(layer, (keras.layers.Dense, keras.layers.Conv1D))]
    counts = []
    for layer in products:
        kernel, positions = layer.kernel.shape, 1
        for size in layer.output.shape[1:-1]:
            positions *= size
        macs = positions
        for size in kernel:
            macs *= size
        counts.append(2 * macs)
    return 3 * sum(counts) - counts[0]


def transformer_flops(depth: int) -> int:
    """Return the floating-point operations of a training step for one character of a row, without the last layer.

    As `training_flops`: products of weights, and of each query with the keys and values of the whole row.
    """
    units = width(depth)
    weights, attention = (4 + 2 * EXPANSION) * units**2, 2 * _ROW * units
    return 3 * 2 * depth * (weights + attention)


if __name__ == "__main__":
    main()
