"""Training the small detector: memes with known lines, views of them, and the file that is written."""

from pathlib import Path
from random import Random

import cv2
import numpy as np
import pytest

from memeloom.ocr.engines.rapidocr_lines import Corners
from memeloom.ocr.models.networks import DETECTOR, characters_of, network_input, networks, packaged
from memeloom.ocr.small.labels import SHRINKAGE, Labelled, Labeller
from memeloom.ocr.small.lines import find_fonts
from memeloom.ocr.small.memes import Memes
from memeloom.ocr.small.text import Texts
from memeloom.ocr.small.views import View, shrunken, view
from memeloom.serve.drawing.fonts import FONT

pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")

CAPTIONS = [
    "when you finally read the manual",
    "NOBODY: ABSOLUTELY NOBODY:",
    "it works on my machine",
    "$5 for 12 eggs?!",
]


def photo(seed: int = 0) -> Labelled:
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Labelled(np.asarray(cv2.resize(coarse, (400, 300), interpolation=cv2.INTER_CUBIC), np.uint8), [])


def drawn(count: int, seed: int = 3) -> list[Labelled]:
    chance = Random(seed)
    memes = Memes(Texts(CAPTIONS, characters_of("eng"), chance), find_fonts(FONT.parent), [photo()], chance)
    return [memes.draw() for _ in range(count)]


def rectangle(left: float, top: float, right: float, bottom: float) -> Corners:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def test_equal_seeds_draw_equal_memes_and_views() -> None:
    first, again, other = drawn(8), drawn(8), drawn(8, seed=4)
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one.picture, two.picture)
        assert all(map(np.array_equal, one.lines, two.lines))
        seen, same = view(one, Random(1)), view(two, Random(1))
        for part in ("picture", "text", "weight"):
            assert np.array_equal(getattr(seen, part), getattr(same, part))
    assert [meme.picture.shape for meme in first] != [meme.picture.shape for meme in other]


def test_lines_lie_in_the_picture_around_letters_and_apart() -> None:
    memes = drawn(40)
    assert sum(len(meme.lines) for meme in memes) > 100
    for meme in memes:
        height, width = meme.picture.shape[:2]
        for corners in meme.lines:
            assert (corners >= 0).all()
            assert (corners <= (width, height)).all()
            left, top = np.floor(corners.min(axis=0)).astype(int)
            right, bottom = np.ceil(corners.max(axis=0)).astype(int)
            assert meme.picture[top:bottom, left:right].std() > 0, "no letters"


def test_a_shrunken_line_grows_to_the_line_again() -> None:
    _, (one, other), _ = cv2.minAreaRect(shrunken(rectangle(10, 20, 310, 60)))
    growth = SHRINKAGE * one * other / (one + other)
    assert sorted((one + growth, other + growth)) == pytest.approx([40, 300], abs=0.5)


def test_a_view_marks_lines_and_leaves_doubtful_and_tiny_ones_open() -> None:
    picture = np.full((400, 400, 3), 200, np.uint8)
    lines, doubtful = [rectangle(40, 40, 360, 90), rectangle(40, 200, 360, 203)], [rectangle(40, 300, 360, 350)]
    marked = unknown = 0
    for seed in range(20):
        seen = view(Labelled(picture, lines, doubtful), Random(seed))
        assert seen.picture.shape == (320, 320, 3)
        assert seen.text.shape == seen.weight.shape == (320, 320)
        assert not seen.text[seen.weight == 0].any()
        marked += int((seen.text > 127).sum())
        unknown += int((seen.weight == 0).sum())
    # A shrunken line of 320 x 50 pixels has about 290 x 20.
    assert 20 * 1500 < marked < 20 * 8000
    assert unknown > 20 * 5000


def test_lines_of_a_meme_are_found_and_read() -> None:
    meme = next(meme for meme in drawn(40) if len(meme.lines) >= 3)
    found = Labeller(networks("eng")).label(meme.picture)
    shared = [
        max((cv2.intersectConvexConvex(line, other)[0] for other in (*found.lines, *found.doubtful)), default=0.0)
        for line in meme.lines
    ]
    covered = [area / cv2.contourArea(line) for area, line in zip(shared, meme.lines, strict=True)]
    assert np.mean([share > 0.6 for share in covered]) >= 0.6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trained_detector_becomes_an_equal_file_and_a_small_one(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra `ocr` is not installed")
    import keras
    import onnxruntime
    import tensorflow as tf

    from memeloom.ocr.small.detector import to_onnx
    from memeloom.ocr.small.train_detector import train, write

    memes = drawn(4)  # convolutions of 16 bits are slow without an accelerator
    views = [view(meme, Random(seed)) for seed, meme in enumerate(memes)]
    parts = [View(*(part[:160, :160] for part in (each.picture, each.text, each.weight))) for each in views]
    policy = keras.mixed_precision.dtype_policy()
    try:
        network = train(iter([parts[:2], parts[2:]]), seconds=600)
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    onnx.save(to_onnx(network), tmp_path / "plain.onnx")
    write(network, [meme.picture for meme in memes[:4]], tmp_path / "small.onnx")

    picture = views[0].picture[:, :288]
    cells = network((picture[None] / 127.5 - 1).astype(np.float32), training=False)
    expected = tf.sigmoid(tf.nn.depth_to_space(cells, 4)).numpy()[..., 0]
    found = {}
    for name in ("plain", "small"):
        session = onnxruntime.InferenceSession(str(tmp_path / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        (found[name],) = session.run(None, {"x": network_input(picture)})
    # Keras computes in 16 bits here: single pixels differ by some hundredths.
    assert np.abs(found["plain"][:, 0] - expected).mean() < 0.02
    assert expected.std() > 0.1
    assert found["small"].shape == (1, 1, 320, 288)
    assert (tmp_path / "small.onnx").stat().st_size < 0.4 * (tmp_path / "plain.onnx").stat().st_size


def test_training_begins_with_the_weights_of_the_package() -> None:
    onnx = pytest.importorskip("onnx", reason="the extra `ocr` is not installed")

    from memeloom.ocr.models.samples import pictures
    from memeloom.ocr.small.detector import begin_from, build

    network = build()
    before = {layer.name: layer.get_weights() for layer in network.layers if layer.get_weights()}
    begin_from(network, onnx.load(packaged(DETECTOR)), pictures(2, 160))
    new = {
        name for name, weights in before.items() if np.array_equal(weights[0], network.get_layer(name).get_weights()[0])
    }
    assert new == {"lateral2", "lateral3", "join", "cells"}
