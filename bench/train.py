"""Compare `causal` with the article's conv net, and with counting: quality on held-out captions over training time.

    python -m bench.train --dataset data/dataset [--minutes 15] [--only causal] [-s train.causal.units=192]

Both train on the same split and processors, one after the other, for the same time, after PPMd
(`train.evaluation.ppmd`) and `ngram`, which take what they need. What `causal` counts before its first step is
included; evaluation and the compiling first step are not. Each mark scores the same validation captions, the end all
test captions. The number of steps, which the schedule needs, is estimated from the speed of the first ones.
"""

import argparse
import csv
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from memeloom.configs.load import load_config
from memeloom.configs.progress import Progress
from memeloom.configs.schema_models import KindName, Train
from memeloom.dataset.texts import texts_of
from memeloom.report.format import percent, short_percent
from memeloom.report.plot import Plot, Series, picture
from memeloom.train.backend import ACCELERATED, BACKEND
from memeloom.train.checks import COUNTED
from memeloom.train.contract import Captioner, hyperparameters, open_kind
from memeloom.train.corpus import Captions, Dataset, open_dataset, read_captions
from memeloom.train.evaluation.held_out import read_held_out
from memeloom.train.evaluation.ppmd import NAME, score_ppmd
from memeloom.train.fitting.batches import Feed
from memeloom.train.fitting.devices import open_devices
from memeloom.train.fitting.loop import TrainingLoop
from memeloom.train.fitting.optimizer import learning_rate
from memeloom.train.ngram.model import fit

_READ = 200_000
_GOALS = {120.0: 0.6055, 900.0: 0.655}
_MARKS = (15, 30, 60, 90, 120, 180, 300, 450, 600, 750, 900)
_PROBE_SECONDS = 12
_PPMD = "ppmd"
_KINDS: tuple[KindName, ...] = ("ngram", "causal", "convnet")


class Mark(NamedTuple):
    """The scores of a model after some training.

    accuracy: None for PPMd, which does not tell its first choices. waiting: share of time spent waiting for batches.
    """

    kind: str
    seconds: float
    steps: int
    units: int
    accuracy: float | None
    bits: float
    waiting: float


def main() -> None:
    """Train, evaluate and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="a dataset of `memeloom build-dataset`")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--only", choices=(_PPMD, *_KINDS), nargs="+", default=(_PPMD, *_KINDS))
    parser.add_argument("--captions", type=int, default=1000, help="validation captions judged at each mark")
    parser.add_argument("--csv", type=Path, help="the marks as a table")
    parser.add_argument("--plot", type=Path, help="an SVG of accuracy over time")
    parser.add_argument("-s", "--set", action="append", default=[], help="a setting, such as train.causal.units=192")
    options = parser.parse_args()
    console = Console(width=130)
    dataset = open_dataset(options.dataset)  # The page cache now holds the files.
    began = time.perf_counter()
    records = sum(len(texts.templates) for texts in texts_of(options.dataset, dataset.manifest, "train"))
    reading = records / (time.perf_counter() - began)
    began = time.perf_counter()
    read_captions(options.dataset, dataset.manifest, "train", dataset.alphabet)
    numbering = records / (time.perf_counter() - began)
    test = read_captions(options.dataset, dataset.manifest, "test", dataset.alphabet)
    console.print(
        f"{BACKEND}, {'with' if ACCELERATED else 'without'} a GPU, {len(os.sched_getaffinity(0))} processors, load "
        f"{os.getloadavg()[0]:.1f}; {len(dataset.train):,} captions to learn from, {options.captions:,} of "
        f"{len(dataset.validation):,} judged at each mark, {len(test):,} at the end; read at {reading:,.0f} "
        f"captions a second (goal: ≥ {_READ:,}), and into numbers at {numbering:,.0f}"
    )
    table = Table(title="accuracy and bits a character over time", box=SIMPLE)
    for column in ("model", "seconds", "steps", "seen", "a second", "accuracy", "bits/char", "waiting", "goal"):
        table.add_column(column, justify="left" if column in ("model", "goal") else "right")
    marks: list[Mark] = []
    for kind in options.only:
        found: Iterator[Mark]
        if kind == _PPMD:
            found = _compressed(options.dataset, dataset)
        elif (settings := load_config(None, [f"train.model={kind}", *options.set], {}).train).model in COUNTED:
            found = _counted(settings, dataset, test, options.captions)
        else:
            found = _trained(settings, dataset, test, options.minutes * 60, options.captions)
        for mark in found:
            marks.append(mark)
            row = _row(mark)
            table.add_row(*row)
            console.print("  ".join(row))
    console.print(table)
    if options.csv:
        with options.csv.open("w", newline="") as stream:
            csv.writer(stream).writerows([Mark._fields, *marks])
    if options.plot:
        options.plot.write_text(picture([_plot(marks, options.only)]))


def _compressed(folder: Path, dataset: Dataset) -> Iterator[Mark]:
    scores, seconds = score_ppmd(read_held_out(folder, "test", None, seed=1), lambda _: None)
    bits = scores.nats.sum() / scores.characters.sum() / math.log(2)
    yield Mark(f"{NAME}, test", seconds, 1, dataset.train.examples, None, float(bits), 0.0)


def _counted(settings: Train, dataset: Dataset, test: Captions, captions: int) -> Iterator[Mark]:
    began = time.perf_counter()
    model = fit(settings, dataset, Progress())
    seconds, units = time.perf_counter() - began, dataset.train.examples
    for name, judged, count in (
        (settings.model, dataset.validation, min(captions, len(dataset.validation))),
        (f"{settings.model}, test", test, len(test)),
    ):
        yield Mark(name, seconds, 1, units, *_judge(model, judged, count), 0.0)


def _trained(settings: Train, dataset: Dataset, test: Captions, budget: float, captions: int) -> Iterator[Mark]:
    devices = open_devices("one", settings.seed)
    kind, course = open_kind(settings.model), hyperparameters(settings)
    steps = _steps_in(settings, dataset, budget)
    began = time.perf_counter()
    task = kind.prepare(settings, dataset, Progress())
    prepared = time.perf_counter() - began
    optimizer = task.make_optimizer(learning_rate(course, steps))
    optimizer.build(task.training_model.trainable_variables)
    made = devices.steps(task, optimizer, course.clip_norm)
    done, seconds, waited = 0, prepared, 0.0
    pace = (budget - prepared) / steps
    with Feed(task.batch, 0, steps) as feed:
        loop = TrainingLoop(made, feed, devices, lambda *_: None, may_overflow=False)
        loop.run(range(1))  # Compiles.
        done = 1
        for moment in [*(moment for moment in _MARKS if prepared < moment < budget), budget]:
            # A few at a time, because the speed may change.
            while done < steps and (seconds < moment or moment == budget):
                stop = min(done + max(round(5 / pace), 1), steps)
                learned = loop.run(range(done, stop))
                done, seconds, waited = stop, seconds + learned.seconds, waited + learned.waited
                pace = (seconds - prepared) / done
                if moment == budget and seconds >= 1.05 * budget:
                    break
            accuracy, bits = _judge(task.captioner, dataset.validation, min(captions, len(dataset.validation)))
            yield Mark(settings.model, seconds, done, done * task.units_per_step, accuracy, bits, waited / seconds)
    accuracy, bits = _judge(task.captioner, test, len(test))
    yield Mark(f"{settings.model}, test", seconds, done, done * task.units_per_step, accuracy, bits, waited / seconds)


def _steps_in(settings: Train, dataset: Dataset, budget: float) -> int:
    """Estimate how many steps fit into `budget` seconds by running a few and discarding them."""
    kind, devices = open_kind(settings.model), open_devices("one", settings.seed)
    began = time.perf_counter()
    task = kind.prepare(settings, dataset, Progress())
    budget -= time.perf_counter() - began
    optimizer = task.make_optimizer(0.0)
    optimizer.build(task.training_model.trainable_variables)
    made = devices.steps(task, optimizer, None)
    with Feed(task.batch, 0, 10**9) as feed:
        loop = TrainingLoop(made, feed, devices, lambda *_: None, may_overflow=False)
        loop.run(range(3))
        began, done = time.perf_counter(), 3
        while time.perf_counter() - began < _PROBE_SECONDS:
            loop.run(range(done, done + 3))
            done += 3
        return max(math.floor(budget * (done - 3) / (time.perf_counter() - began)), 2)


def _judge(model: Captioner, captions: Captions, count: int) -> tuple[float, float]:
    judged = model.score(captions, 0, count)
    bits = -judged.log_likelihood.sum() / judged.characters.sum() / math.log(2)
    return float(judged.right.sum() / judged.tokens.sum()), float(bits)


def _row(mark: Mark) -> Sequence[str]:
    goals = [(limit, goal) for limit, goal in _GOALS.items() if mark.kind == "causal" and mark.seconds <= limit * 1.05]
    reached = "; ".join(f"≥ {goal} by {limit:.0f} s" for limit, goal in goals if (mark.accuracy or 0) >= goal)
    return (
        mark.kind, f"{mark.seconds:.0f}", f"{mark.steps:,}", f"{mark.units:,}", f"{mark.units / mark.seconds:,.0f}",
        "–" if mark.accuracy is None else f"{mark.accuracy:.4f}", f"{mark.bits:.3f}", f"{mark.waiting:.1%}", reached,
    )  # fmt: skip


def _plot(marks: Sequence[Mark], kinds: Sequence[str]) -> Plot:
    return Plot(
        title="Accuracy on held-out captions",
        series=[
            Series(kind, [(mark.seconds / 60, mark.accuracy or 0.0) for mark in marks if mark.kind == kind])
            for kind in kinds
            if kind != _PPMD
        ],
        x_label="minutes of training",
        y_format=short_percent,
        levels={f"goal {percent(goal)}": goal for goal in _GOALS.values()},
        dots=True,
    )


if __name__ == "__main__":
    main()
