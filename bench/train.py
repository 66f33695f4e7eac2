"""How fast captions are read, examples made, networks trained and captions written: one table.

python -m bench.train [--dataset data/dataset] [--seconds 10]

Without a dataset the captions are invented; only reading needs one. Rates stand by the second and by the
second of processor time, which is what counts on a machine that others use too.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dataset.manifest import DatasetTemplate, read_manifest
from dataset.vocabulary import read_vocabulary
from train.backend import ACCELERATED, keras
from train.characters import Alphabet
from train.contract import Prompt
from train.convnet.examples import Cut, examples_of
from train.convnet.model import ConvnetCaptioner
from train.convnet.network import build_convnet
from train.corpus import Captions, read_captions
from train.decoding.choose import by_threshold
from train.decoding.write import write_captions

# Filters, sequence length, batch: the default, the demo's, and the article's network.
_SHAPES = ((128, 128, 256), (64, 48, 64), (1024, 128, 16))
_CAPTIONS, _MEAN_CHARACTERS = 50_000, 48
_WRITTEN = 60
_LETTERS = "e toanishrlduymwgfcpkb|v,'.x!jz?q0123456789-:;\"()/$%&*+#@_=[]<>^~`{}\\"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, help="a dataset of `memeloom build-dataset`")
    parser.add_argument("--seconds", type=float, default=10, help="how long each row is measured")
    options = parser.parse_args()
    table = Table(title=f"train/ with XLA {'on' if ACCELERATED else 'off'}", title_justify="left")
    for column in ("what", "unit", "a second", "a second of CPU"):
        table.add_column(column, justify="left" if column in ("what", "unit") else "right")
    for what, unit, wall, cpu in _rows(options.dataset, options.seconds):
        table.add_row(what, unit, f"{wall:,.0f}", f"{cpu:,.0f}")
    Console().print(table)


def _rows(folder: Path | None, seconds: float) -> Iterator[tuple[str, str, float, float]]:
    alphabet = Alphabet.of(_LETTERS)
    captions = _invented(alphabet)
    if folder is not None:
        alphabet = Alphabet.of(read_vocabulary(folder).characters)
        manifest = read_manifest(folder)
        began, cpu = time.perf_counter(), time.process_time()
        captions = read_captions(folder, manifest, "train", alphabet)
        count = len(captions.templates)
        yield "read shards", "captions", count / (time.perf_counter() - began), count / (time.process_time() - cpu)
    steps = itertools.count()
    yield (
        "examples made, batch 256", "examples",
        *_rate(lambda: len(examples_of(captions, next(steps), batch=256, seed=1)[1]), seconds),
    )  # fmt: skip
    for filters, length, batch in _SHAPES:
        network = _network(len(alphabet), filters, length)
        yield (
            f"training step, {filters} filters, length {length}, batch {batch}",
            "examples",
            *_training(network, captions, length, batch, seconds),
        )
        for rows in (1, 64) if filters < 1024 else ():
            write = _writer(ConvnetCaptioner(network, alphabet, (), "|"), rows)
            yield f"writing, {filters} filters, length {length}, {rows} at once", "characters", *_rate(write, seconds)
        if filters == 128:
            predict = _predictor(network, length)
            yield "the same with model.predict a character", "characters", *_rate(predict, seconds)


def _rate(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Units a second and a second of CPU; `work` does some and says how many. The first call is not counted."""
    work()
    began, cpu, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began), done / (time.process_time() - cpu)


def _training(network: Any, captions: Captions, length: int, batch: int, seconds: float) -> tuple[float, float]:
    """As `train_model` trains: one `fit` over many steps."""
    places = keras.Input((), dtype="int32")
    trainee = keras.Model(places, network(Cut(captions, length)(places)))
    trainee.compile(
        optimizer=keras.optimizers.RMSprop(1e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=ACCELERATED,
    )
    steps = 0

    def work() -> int:
        nonlocal steps
        trainee.train_on_batch(*examples_of(captions, steps, batch=batch, seed=1))
        steps += 1
        return batch

    return _rate(work, seconds)


def _network(characters: int, filters: int, length: int) -> Any:
    return build_convnet(characters, filters=filters, embedding=16, sequence_length=length, dropout=0.25, seed=1)


def _writer(model: ConvnetCaptioner, rows: int) -> Callable[[], int]:
    endless = DatasetTemplate(
        id="1", name="1", slug="1", captions=1, boxes=99, box_count=None, geometry=(), image_key=None
    )
    rng = np.random.default_rng(1)

    def write() -> int:
        write_captions(model, [Prompt(endless)] * rows, by_threshold(0.9), max_characters=_WRITTEN, rng=rng)
        return rows * _WRITTEN

    return write


def _predictor(network: Any, length: int) -> Callable[[], int]:
    inputs = np.zeros((1, length), np.int32)

    def predict() -> int:
        network.predict(inputs, verbose=0)
        return 1

    return predict


def _invented(alphabet: Alphabet) -> Captions:
    """Captions of random letters; how fast they are learned from does not depend on what they say."""
    rng = np.random.default_rng(1)
    lengths = rng.poisson(_MEAN_CHARACTERS, _CAPTIONS)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Captions(
        characters=rng.integers(1, len(alphabet) + 1, starts[-1]).astype(np.uint16),
        boxes=np.zeros(starts[-1], np.uint8),
        starts=starts,
        templates=rng.integers(0, 50, _CAPTIONS).astype(np.int32),
        prefixes=alphabet.prefixes([str(number) for number in range(50)], 1),
    )


if __name__ == "__main__":
    main()
