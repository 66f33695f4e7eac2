r"""Train the small recogniser.

To make a file like that in `ocr/models` (two processors, an hour and a half), with any folders of fonts, of pictures
without text, and of memes:

    python -m memeloom.ocr.small.train --captions captions.txt --fonts /usr/share/fonts --pictures templates/ \
        --memes memes/ --minutes 85 --out small_recogniser.onnx

One process draws lines, this one trains: first by the character of each column, then by connectionist temporal
classification (Graves et al. 2006), with AdamW and a cosine schedule over the given time. `--captions` has a caption a
line. Lines of `--memes`, as the large recogniser reads them, make up an eighth.
"""

import argparse
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, Full
from random import Random
from typing import Any, TypeAlias

import cv2
import numpy as np
import onnx
from rich.console import Console

from memeloom.catalog.errors import BadImage
from memeloom.catalog.images import decode_image
from memeloom.ocr.engines.rapidocr import SIDE, crop_line, load_network, read_line
from memeloom.ocr.engines.rapidocr_lines import detect_lines
from memeloom.ocr.engines.rapidocr_small import STRIDE
from memeloom.ocr.models.build import quantise
from memeloom.ocr.models.networks import Picture, characters_of, networks
from memeloom.ocr.small.lines import Drawer, Line, find_fonts, vary
from memeloom.ocr.small.network import build, to_onnx
from memeloom.ocr.small.text import Texts

_LANGUAGE = "eng"
_SEED = 11
_REAL_SHARE, _REAL_CONFIDENCE = 0.12, 0.9
_BACKGROUNDS, _BACKGROUND_EDGE = 160, 700
# Lines sorted by width at a time, the pixels of a batch's row, and how many batches wait.
_SORTED, _BATCH_PIXELS, _WAITING = 2048, 16_384, 400
_PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
_MULTIPLE = 32  # of pixels: fewer widths are faster
_RATE, _DECAY, _CLIP, _WARM_UP = 2.5e-3, 1e-3, 2.0, 200
# Shares of the time: columns alone until, then less and less until; and the weight of columns between characters.
_COLUMNS_ONLY, _COLUMNS_UNTIL, _BLANK_WEIGHT = 0.06, 0.46, 0.35
_CTC_WEIGHT = 3.0
_CALIBRATION = 200

_CONSOLE = Console()

Real: TypeAlias = tuple[Picture, str]


def main() -> None:
    """Train, and write the 8-bit network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="text file of captions, one a line")
    parser.add_argument("--fonts", type=Path, required=True, help="folder of TrueType and OpenType fonts")
    parser.add_argument("--pictures", type=Path, required=True, help="folder of pictures without text")
    parser.add_argument("--memes", type=Path, help="folder of memes, read by the large recogniser")
    parser.add_argument("--minutes", type=float, default=85.0, help="time of training")
    parser.add_argument("--out", type=Path, required=True, help="the network, an ONNX file")
    given = parser.parse_args()
    for option, path, is_there in (
        ("--captions", given.captions, Path.is_file), ("--fonts", given.fonts, Path.is_dir),
        ("--pictures", given.pictures, Path.is_dir), ("--memes", given.memes, Path.is_dir),
        ("--out", given.out.parent, Path.is_dir),
    ):  # fmt: skip
        if path is not None and not is_there(path):
            parser.error(f"{option}: no such {'file' if is_there is Path.is_file else 'directory'}: {path}")
    captions = [line for line in given.captions.read_text(encoding="utf-8").splitlines() if line.strip()]
    chance = Random(_SEED)
    try:
        texts = Texts(captions, characters_of(_LANGUAGE), chance)
    except ValueError as error:
        parser.error(f"--captions: {given.captions}: {error}")
    fonts = find_fonts(given.fonts)
    if not fonts:
        parser.error(f"--fonts: no font with all letters and signs below {given.fonts}")
    real = read_memes(given.memes) if given.memes else []
    backgrounds = _pictures(given.pictures, chance)
    _CONSOLE.print(
        f"{len(captions)} captions, {len(fonts)} fonts, {len(backgrounds)} pictures, {len(real)} lines of memes"
    )
    drawer = Drawer(texts, fonts, backgrounds, characters_of(_LANGUAGE), chance)
    with _Drawing(drawer, real, chance) as drawing:
        network = train(drawing.batches(), 60 * given.minutes)
    write(network, [drawer.draw().picture for _ in range(_CALIBRATION)], given.out)


def train(batches: Iterator[Sequence[Line]], seconds: float) -> Any:
    """Return a Keras network trained for `seconds` on `batches`, lines of like width each."""
    import keras
    import tensorflow as tf

    network = build(1 + len(characters_of(_LANGUAGE)))
    optimiser = keras.optimizers.AdamW(_RATE, weight_decay=_DECAY, global_clipnorm=_CLIP)
    optimiser.build(network.trainable_variables)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
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


def read_memes(folder: Path) -> list[Real]:
    """Return the lines of the memes in `folder`, each with the large recogniser's sure reading."""
    files = networks(_LANGUAGE)
    detector, recogniser = load_network(files.detector), load_network(files.recogniser)
    found = list[Real]()
    for picture in map(_decoded, _picture_files(folder)):
        for corners in detect_lines(detector, picture, SIDE):
            line = crop_line(picture, corners)
            pieces = read_line(recogniser, files.characters, line)
            text = " ".join(piece.text for piece in pieces)
            letters = sum(len(piece.text) for piece in pieces)
            if letters and sum(len(piece.text) * piece.confidence for piece in pieces) >= _REAL_CONFIDENCE * letters:
                found.append((line, text))
    return found


def batches_of(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Split lines into batches of like width, shortest first."""
    ordered = sorted(lines, key=lambda line: line.picture.shape[1])
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or (end + 1 - start) * _padded(ordered[end].picture.shape[1]) > _BATCH_PIXELS:
            yield ordered[start:end]
            start = end


class _Drawing:
    """A process that draws batches; a context manager."""

    def __init__(self, drawer: Drawer, real: Sequence[Real], chance: Random) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: multiprocessing.Queue[Sequence[Line]] = context.Queue(_WAITING)
        self._process = context.Process(target=_draw, args=(drawer, real, chance, self._queue), daemon=True)

    def __enter__(self) -> "_Drawing":
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def batches(self) -> Iterator[Sequence[Line]]:
        """Yield batches for ever. Raises RuntimeError if the process ended."""
        while True:
            try:
                yield self._queue.get(timeout=5)
            except Empty:
                if not self._process.is_alive():
                    raise RuntimeError("the process that draws lines ended; its error is above") from None


def _draw(drawer: Drawer, real: Sequence[Real], chance: Random, queue: "multiprocessing.Queue[Sequence[Line]]") -> None:
    cv2.setNumThreads(1)
    while True:
        lines = list[Line]()
        while len(lines) < _SORTED:
            line = vary(*chance.choice(real), chance) if real and chance.random() < _REAL_SHARE else drawer.draw()
            lines += [line] if line is not None else []
        batches = list(batches_of(lines))
        chance.shuffle(batches)
        for batch in batches:
            _put(queue, batch)


def _put(queue: "multiprocessing.Queue[Sequence[Line]]", batch: Sequence[Line]) -> None:
    """Wait for room in the queue; leave if the trainer is gone."""
    while True:
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            raise SystemExit
        try:
            return queue.put(batch, timeout=5)
        except Full:
            continue


def _tensors(batch: Sequence[Line]) -> tuple[Any, ...]:
    import tensorflow as tf

    index = {character: number for number, character in enumerate(characters_of(_LANGUAGE))}
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


def _pictures(folder: Path, chance: Random) -> list[Picture]:
    paths = _picture_files(folder)
    chance.shuffle(paths)
    return [_reduced(_decoded(path)) for path in paths[:_BACKGROUNDS]]


def _picture_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURE_ENDINGS)


def _decoded(path: Path) -> Picture:
    try:
        return decode_image(path.read_bytes())
    except BadImage as error:
        raise SystemExit(f"{path}: {error}") from None


def _reduced(picture: Picture) -> Picture:
    scale = _BACKGROUND_EDGE / max(picture.shape[:2])
    if scale >= 1:
        return picture
    return np.asarray(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)


if __name__ == "__main__":
    main()
