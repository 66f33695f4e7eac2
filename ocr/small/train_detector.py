r"""Train the small detector.

To make a file like that in `ocr/models` (two processors, 75 minutes), with any folders of fonts, of pictures to draw
on, and of memes:

    python -m memeloom.ocr.small.train_detector --captions captions.txt --fonts /usr/share/fonts \
        --pictures templates/ --memes memes/ --minutes 75 --out small_detector.onnx

It begins with the weights of the package's detector. One process draws memes and cuts views out of them and of the
given ones, this one trains, with AdamW, a cosine schedule over the given time and a mean of the weights. `--captions`
has a caption a line.
"""

import logging
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.progress import track

from memeloom.ocr.engines.rapidocr import SIDE
from memeloom.ocr.engines.rapidocr_lines import scaled
from memeloom.ocr.models.build import shrink
from memeloom.ocr.models.networks import DETECTOR, Picture, networks, packaged
from memeloom.ocr.models.samples import pictures as drawn_pictures
from memeloom.ocr.small.detector import CELL, begin_from, build, to_onnx
from memeloom.ocr.small.feeding import Feed
from memeloom.ocr.small.inputs import LANGUAGE, parse, read_picture_file
from memeloom.ocr.small.labels import Labelled, Labeller
from memeloom.ocr.small.memes import Memes
from memeloom.ocr.small.views import View, view

_SEED = 12
_MEMES, _DRAWN = 0.35, 0.5  # shares of views; the others show the pictures that are drawn on
_BATCH, _WAITING = 8, 24
_RATE, _DECAY, _CLIP, _WARM_UP = 1e-3, 1e-3, 1.0, 200
_MEAN = 0.999  # share of the mean weights that a step keeps
_BY_PIXEL = 4.0  # weight of the pixels' mean error beside that of the overlap
_SAMPLES = 24  # drawn pictures to see the package's channel attention
_CALIBRATION = 64  # memes
_TOLD = 0.02  # share of the time between messages

_CONSOLE = Console()


def main() -> None:
    """Train, and write the 8-bit network, without the libraries' warnings about it."""
    logging.disable(logging.WARNING)
    chance = Random(_SEED)
    given = parse(__doc__ or "", 75.0, chance)
    labeller = Labeller(networks(LANGUAGE))
    pictures, memes = (
        [labeller.label(read_picture_file(path)) for path in track(paths, f"reading {name}")]
        for name, paths in (("pictures", given.pictures), ("memes", given.memes))
    )
    lines = sum(len(each.lines) for each in memes)
    _CONSOLE.print(f"{len(given.fonts)} fonts, {len(pictures)} pictures, {len(memes)} memes of {lines} lines")
    drawer = Memes(given.texts, given.fonts, pictures, chance)
    with Feed(_views, (drawer, memes, pictures, chance), _WAITING) as feed:
        network = train(feed.items(), 60 * given.minutes)
    write(network, [each.picture for each in chance.sample(memes, min(len(memes), _CALIBRATION))], given.out)


def train(batches: Iterator[Sequence[View]], seconds: float) -> Any:
    """Return a Keras network trained for `seconds` on batches of views."""
    import keras
    import tensorflow as tf

    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    network = build()
    begin_from(network, onnx.load(packaged(DETECTOR)), drawn_pictures(_SAMPLES, SIDE))
    optimiser = keras.optimizers.AdamW(
        _RATE, weight_decay=_DECAY, global_clipnorm=_CLIP, use_ema=True, ema_momentum=_MEAN
    )
    optimiser.build(network.trainable_variables)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def step(seen: Any, text: Any, weight: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            logits = tf.nn.depth_to_space(network(tf.cast(seen, tf.float32) / 127.5 - 1, training=True), CELL)[..., 0]
            wanted, counts = tf.cast(text, tf.float32) / 255, tf.cast(weight, tf.float32)
            errors = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits) * counts
            by_pixel = tf.reduce_sum(errors) / tf.reduce_sum(counts)
            found = tf.sigmoid(logits) * counts
            shared = tf.reduce_sum(found * wanted)
            overlap = (2 * shared + 1) / (tf.reduce_sum(found) + tf.reduce_sum(wanted * counts) + 1)
            loss = _BY_PIXEL * by_pixel + 1 - overlap
        gradients = tape.gradient(loss, network.trainable_variables)
        optimiser.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return by_pixel, overlap

    start, told, sums = time.monotonic(), 0.0, np.zeros(3)
    for number, batch in enumerate(batches):
        done = (time.monotonic() - start) / seconds
        if done >= 1:
            break
        optimiser.learning_rate.assign(_RATE * min(1, number / _WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * done)))
        columns = zip(*((each.picture, each.text, each.weight) for each in batch), strict=True)
        by_pixel, overlap = step(*(tf.constant(np.stack(column)) for column in columns))
        sums += float(by_pixel), float(overlap), 1
        if done - told >= _TOLD:
            by_pixel, overlap, steps = sums
            _CONSOLE.print(
                f"{done:.0%}: {_BATCH * (number + 1)} views, "
                f"error by pixel {by_pixel / steps:.4f}, overlap {overlap / steps:.3f}"
            )
            told, sums = done, np.zeros(3)
    optimiser.finalize_variable_values(network.trainable_variables)
    return network


def write(network: Any, memes: Sequence[Picture], target: Path) -> None:
    """Write the network as ONNX with 8-bit integers. memes: to calibrate it."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(to_onnx(network), plain := Path(folder, "plain.onnx"))
        shrink(onnx.load(plain), target, (scaled(meme, SIDE) for meme in memes))


def _views(
    drawer: Memes, memes: Sequence[Labelled], backgrounds: Sequence[Labelled], chance: Random
) -> Iterator[list[View]]:
    def one() -> View:
        kind = chance.random()
        if kind < _DRAWN:
            return view(drawer.draw(), chance)
        return view(chance.choice(memes if kind < _DRAWN + _MEMES else backgrounds), chance)

    while True:
        yield [one() for _ in range(_BATCH)]


if __name__ == "__main__":
    main()
