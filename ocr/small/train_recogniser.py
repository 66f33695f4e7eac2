r"""Train the small recogniser.

To make a file like that in `ocr/models` (two processors, an hour and a half), with any folders of fonts, of pictures
without text, and of memes:

    python -m memeloom.ocr.small.train_recogniser --captions captions.txt --fonts /usr/share/fonts \
        --pictures templates/ --memes memes/ --minutes 85 --out small_recogniser.onnx

One process draws lines, this one trains: first by the character of each column, then by connectionist temporal
classification (Graves et al. 2006), with AdamW and a cosine schedule over the given time. `--captions` has a caption a
line. Lines of `--memes`, as the large recogniser reads them, make up an eighth.
"""

import logging
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import cv2
import numpy as np
import onnx
from rich.console import Console
from rich.progress import track

from memeloom.ocr.engines.rapidocr import SIDE, crop_line, load_network, read_line
from memeloom.ocr.engines.rapidocr_lines import detect_lines
from memeloom.ocr.engines.rapidocr_small import STRIDE
from memeloom.ocr.models.build import quantise
from memeloom.ocr.models.networks import Picture, characters_of, networks
from memeloom.ocr.small.feeding import Feed
from memeloom.ocr.small.inputs import LANGUAGE, parse, read_picture_file
from memeloom.ocr.small.lines import Drawer, Line, vary
from memeloom.ocr.small.recogniser import build, to_onnx

_SEED = 11
_REAL_SHARE, _REAL_CONFIDENCE = 0.12, 0.9
_BACKGROUNDS, _BACKGROUND_EDGE = 160, 700
# Lines sorted by width at a time, the pixels of a batch's row, and how many batches wait.
_SORTED, _BATCH_PIXELS, _WAITING = 2048, 16_384, 400
_MULTIPLE = 32  # of pixels: fewer widths are faster
_RATE, _DECAY, _CLIP, _WARM_UP = 2.5e-3, 1e-3, 2.0, 200
# Shares of the time: columns alone until, then less and less until; and the weight of columns between characters.
_COLUMNS_ONLY, _COLUMNS_UNTIL, _BLANK_WEIGHT = 0.06, 0.46, 0.35
_CTC_WEIGHT = 3.0
_CALIBRATION = 200

_CONSOLE = Console()

Real: TypeAlias = tuple[Picture, str]


def main() -> None:
    """Train, and write the 8-bit network, without the libraries' warnings about it."""
    logging.disable(logging.WARNING)
    chance = Random(_SEED)
    given = parse(__doc__ or "", 85.0, chance)
    memes = map(read_picture_file, track(given.memes, "reading memes"))
    real = list(read_lines(memes))
    backgrounds = _some(given.pictures, chance)
    _CONSOLE.print(f"{len(given.fonts)} fonts, {len(backgrounds)} pictures, {len(real)} lines of memes")
    drawer = Drawer(given.texts, given.fonts, backgrounds, characters_of(LANGUAGE), chance)
    with Feed(_batches, (drawer, real, chance), _WAITING) as feed:
        network = train(feed.items(), 60 * given.minutes)
    write(network, [drawer.draw().picture for _ in range(_CALIBRATION)], given.out)


def train(batches: Iterator[Sequence[Line]], seconds: float) -> Any:
    """Return a Keras network trained for `seconds` on `batches`, lines of like width each."""
    import keras
    import tensorflow as tf

    network = build(1 + len(characters_of(LANGUAGE)))
    optimiser = keras.optimizers.AdamW(_RATE, weight_decay=_DECAY, global_clipnorm=_CLIP)
    optimiser.build(network.trainable_variables)

    @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
    def step(pictures: Any, columns: Any, known: Any, texts: Any, share: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            logits = network(tf.cast(pictures, tf.float32) / 127.5 - 1, training=True)[:, 0]
            errors = tf.nn.sparse_softmax_cross_entropy_with_logits(columns, logits)
            weights = tf.where(columns == 0, _BLANK_WEIGHT, 1.0) * known[:, None]
            by_column = tf.reduce_sum(errors * weights) / tf.reduce_sum(weights + 1e-6)
            lengths = tf.fill([tf.shape(logits)[0]], tf.shape(logits)[1])
            # The fastest of TensorFlow's functions; its blank is the last class.
            by_text = tf.compat.v1.nn.ctc_loss(
                texts, tf.roll(logits, -1, axis=-1), lengths, time_major=False,
                ignore_longer_outputs_than_inputs=True,
            )  # fmt: skip
            by_text = tf.reduce_mean(by_text / tf.cast(lengths, tf.float32))
            loss = share * by_column + (1 - share) * _CTC_WEIGHT * by_text
        gradients = tape.gradient(loss, network.trainable_variables)
        optimiser.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return by_column, by_text

    start, told, lines = time.monotonic(), 0.0, 0
    for number, batch in enumerate(batches):
        done = (time.monotonic() - start) / seconds
        if done >= 1:
            break
        optimiser.learning_rate.assign(_RATE * min(1, number / _WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * done)))
        share = (
            1.0 if done < _COLUMNS_ONLY else max(0.0, 0.5 * (_COLUMNS_UNTIL - done) / (_COLUMNS_UNTIL - _COLUMNS_ONLY))
        )
        by_column, by_text = step(*_tensors(batch), tf.constant(share, tf.float32))
        lines += len(batch)
        if done - told >= 0.05:
            told = done
            _CONSOLE.print(
                f"{done:.0%}: {lines} lines, loss by column {float(by_column):.3f}, by text {float(by_text):.4f}",
            )
    return network


def write(network: Any, samples: Sequence[Picture], target: Path) -> None:
    """Write the network as ONNX with 8-bit integers. samples: lines to calibrate it."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(to_onnx(network), plain := Path(folder, "plain.onnx"))
        quantise(plain, target, (line[:, : line.shape[1] // STRIDE * STRIDE] for line in samples))


def read_lines(memes: Iterable[Picture]) -> Iterator[Real]:
    """Yield the lines of the memes, each with the large recogniser's sure reading."""
    files = networks(LANGUAGE)
    detector, recogniser = load_network(files.detector), load_network(files.recogniser)
    for picture in memes:
        for corners in detect_lines(detector, picture, SIDE):
            line = crop_line(picture, corners)
            pieces = read_line(recogniser, files.characters, line)
            text = " ".join(piece.text for piece in pieces)
            letters = sum(len(piece.text) for piece in pieces)
            if letters and sum(len(piece.text) * piece.confidence for piece in pieces) >= _REAL_CONFIDENCE * letters:
                yield line, text


def batches_of(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Split lines into batches of like width, shortest first."""
    ordered = sorted(lines, key=lambda line: line.picture.shape[1])
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or (end + 1 - start) * _padded(ordered[end].picture.shape[1]) > _BATCH_PIXELS:
            yield ordered[start:end]
            start = end


def _batches(drawer: Drawer, real: Sequence[Real], chance: Random) -> Iterator[Sequence[Line]]:
    while True:
        lines = list[Line]()
        while len(lines) < _SORTED:
            line = vary(*chance.choice(real), chance) if real and chance.random() < _REAL_SHARE else drawer.draw()
            lines += [line] if line is not None else []
        batches = list(batches_of(lines))
        chance.shuffle(batches)
        yield from batches


def _tensors(batch: Sequence[Line]) -> tuple[Any, ...]:
    import tensorflow as tf

    index = {character: number for number, character in enumerate(characters_of(LANGUAGE))}
    width = _padded(max(line.picture.shape[1] for line in batch))
    pictures = [
        np.pad(line.picture, ((0, 0), (0, width - line.picture.shape[1]), (0, 0)), mode="edge") for line in batch
    ]
    columns = np.zeros((len(batch), width // STRIDE), np.int32)
    for row, line in zip(columns, batch, strict=True):
        if line.columns is not None:
            row[: len(line.columns)] = line.columns
    known = np.array([line.columns is not None for line in batch], np.float32)
    places = [(row, place) for row, line in enumerate(batch) for place in range(len(line.text))]
    values = np.array([index[character] for line in batch for character in line.text], np.int32)
    shape = len(batch), max(len(line.text) for line in batch)
    texts = tf.SparseTensor(np.array(places, np.int64), values, np.array(shape, np.int64))
    return tf.constant(np.stack(pictures)), tf.constant(columns), tf.constant(known), texts


def _padded(width: int) -> int:
    return math.ceil(width / _MULTIPLE) * _MULTIPLE


def _some(paths: Sequence[Path], chance: Random) -> list[Picture]:
    chosen = chance.sample(paths, min(len(paths), _BACKGROUNDS))
    return [_reduced(read_picture_file(path)) for path in chosen]


def _reduced(picture: Picture) -> Picture:
    scale = _BACKGROUND_EDGE / max(picture.shape[:2])
    if scale >= 1:
        return picture
    return np.asarray(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)


if __name__ == "__main__":
    main()
