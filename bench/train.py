"""How fast captions are read, examples made, networks trained and captions written: one table.

python -m bench.train [--dataset data/dataset] [--seconds 10]

Without a dataset the captions are invented; only reading needs one. Rates stand by the second and by the
second of processor time, which is what counts on a machine that others use too.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dataset.manifest import DatasetTemplate, read_manifest
from dataset.vocabulary import read_vocabulary
from train.backend import keras, tf, xla_pays
from train.characters import Alphabet
from train.convnet import build_convnet
from train.decode import write_captions
from train.model_folder import CaptionModel
from train.pipeline import Captions, example_batches, read_captions

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
    table = Table(title=f"train/ with XLA {'on' if xla_pays() else 'off'}", title_justify="left")
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
    batches = iter(_batches(captions, 128, 256))
    yield "input pipeline, length 128", "examples", *_rate(lambda: len(next(batches)[1]), seconds)
    for filters, length, batch in _SHAPES:
        network = _network(len(alphabet), filters, length)
        yield (
            f"training step, {filters} filters, length {length}, batch {batch}",
            "examples",
            *_training(network, _batches(captions, length, batch), batch, seconds),
        )
        for rows in (1, 64) if filters < 1024 else ():
            write = _writer(CaptionModel(network, alphabet, (), "|"), rows)
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


def _training(network: Any, batches: Any, batch: int, seconds: float) -> tuple[float, float]:
    """As `train_model` trains: one `fit` over many steps."""
    network.fit(batches.take(2), verbose=0, shuffle=False)
    began, cpu, steps = time.perf_counter(), time.process_time(), 0

    def count(_step: int, **_logs: Any) -> None:
        nonlocal steps
        steps += 1
        network.stop_training = time.perf_counter() - began > seconds

    network.fit(batches, verbose=0, shuffle=False, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=count)])
    return steps * batch / (time.perf_counter() - began), steps * batch / (time.process_time() - cpu)


def _batches(captions: Captions, length: int, batch: int) -> Any:
    return example_batches(captions, sequence_length=length, batch=batch, seed=1, steps=range(10**9))


def _network(characters: int, filters: int, length: int) -> Any:
    network = build_convnet(characters, filters=filters, embedding=16, sequence_length=length, dropout=0.25, seed=1)
    network.compile(
        optimizer=keras.optimizers.RMSprop(1e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=xla_pays(),
    )
    return network


def _writer(model: CaptionModel, rows: int) -> Callable[[], int]:
    endless = DatasetTemplate(
        id="1", name="1", slug="1", captions=1, boxes=99, box_count=None, geometry=(), image_key=None
    )
    rng = np.random.default_rng(1)

    def write() -> int:
        write_captions(model, [endless] * rows, start="", min_score=0.9, max_characters=_WRITTEN, rng=rng)
        return rows * _WRITTEN

    return write


def _predictor(network: Any, length: int) -> Callable[[], int]:
    inputs = tf.zeros((1, length), tf.int32)

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
