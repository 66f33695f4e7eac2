"""Training the small recogniser: what it draws, what it learns, and the file it writes; the command line of both."""

import sys
from itertools import groupby
from pathlib import Path
from random import Random

import numpy as np
import pytest

from memeloom.ocr.models.networks import characters_of, network_input
from memeloom.ocr.small.inputs import parse
from memeloom.ocr.small.lines import Drawer, Line, find_fonts, fits, vary
from memeloom.ocr.small.text import Texts
from memeloom.serve.drawing.fonts import FONT

pytest.importorskip("onnxruntime", reason="the extra `ocr` is not installed")

CHARACTERS = characters_of("eng")
CAPTIONS = [
    "when you finally read the manual",
    "NOBODY: ABSOLUTELY NOBODY:",
    "it works on my machine",
    "$5 for 12 eggs?!",
]


def drawn(count: int, seed: int = 3) -> list[Line]:
    chance = Random(seed)
    photo = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    drawer = Drawer(Texts(CAPTIONS, CHARACTERS, chance), find_fonts(FONT.parent), [photo], CHARACTERS, chance)
    return [drawer.draw() for _ in range(count)]


def test_equal_seeds_draw_equal_lines() -> None:
    first, again, other = drawn(20), drawn(20), drawn(20, seed=4)
    assert all(
        one.text == two.text and np.array_equal(one.picture, two.picture) for one, two in zip(first, again, strict=True)
    )
    assert [line.text for line in first] != [line.text for line in other]


def test_columns_name_the_characters_in_order() -> None:
    for line in drawn(60):
        assert line.picture.shape[0] == 32
        assert line.columns is not None
        assert len(line.columns) == line.picture.shape[1] // 4
        shown = "".join(CHARACTERS[label - 1] for label, _ in groupby(line.columns) if label)
        # Narrow characters may share a column, and the last may be cut.
        assert len(shown) >= 0.6 * len(line.text)
        places = iter(line.text)
        assert all(character in places for character in shown), f"{shown!r} in {line.text!r}"


def test_texts_have_the_characters_of_the_network_only() -> None:
    texts = Texts(["naïve 日本 captions, “quoted”", "🙂"], CHARACTERS, Random(1))
    lines = [texts.line() for _ in range(300)]
    assert set("".join(lines)) <= set(CHARACTERS)
    assert all(0 < len(line) <= 50 and line == line.strip() for line in lines)


def test_real_lines_are_varied_and_long_ones_left_out() -> None:
    line, text = np.full((48, 240, 3), 255, np.uint8), "a real line"
    varied = [vary(line, text, Random(seed)) for seed in range(8)]
    assert all(found is not None and found.columns is None and found.text == text for found in varied)
    assert len({found.picture.shape for found in varied if found}) > 1
    assert vary(np.full((48, 2000, 3), 255, np.uint8), text, Random(0)) is None
    assert not fits("aa", 8)
    assert fits("ab", 8)


def test_what_a_trainer_lacks_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "captions.txt").write_text("日本\n", encoding="utf-8")
    (tmp_path / "pictures").mkdir()
    given = {
        "--captions": tmp_path / "captions.txt", "--fonts": FONT.parent, "--pictures": tmp_path / "pictures",
        "--memes": tmp_path / "memes", "--out": tmp_path / "small.onnx",
    }  # fmt: skip

    def complaint() -> str:
        words = [str(word) for option in given.items() for word in option]
        monkeypatch.setattr(sys, "argv", ["train", *words])
        with pytest.raises(SystemExit):
            parse("Train.", 1.0, Random(0))
        return capsys.readouterr().err.splitlines()[-1]

    assert complaint().endswith(f"--memes: no such directory: {tmp_path / 'memes'}")
    (tmp_path / "memes").mkdir()
    assert complaint().endswith("captions.txt: the captions have no word that the network can read")
    (tmp_path / "captions.txt").write_text("when you\n", encoding="utf-8")
    assert complaint().endswith(f"--pictures: no picture below {tmp_path / 'pictures'}")
    (tmp_path / "pictures" / "a.png").touch()
    given["--fonts"] = tmp_path
    assert complaint().endswith(f"--fonts: no font with all letters and signs below {tmp_path}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trained_network_becomes_an_equal_file_and_a_small_one(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra `ocr` is not installed")
    import onnxruntime
    import tensorflow as tf

    from memeloom.ocr.small.recogniser import to_onnx
    from memeloom.ocr.small.train_recogniser import batches_of, train, write

    lines = drawn(64)
    batches = list(batches_of(lines))
    assert sum(map(len, batches)) == len(lines)
    assert all(len(batch) * max(line.picture.shape[1] for line in batch) <= 16_384 for batch in batches)
    network = train(iter([batches[0][:4]] * 2), seconds=600)
    onnx.save(to_onnx(network), tmp_path / "plain.onnx")
    write(network, [line.picture for line in lines[:8]], tmp_path / "small.onnx")

    line = lines[0].picture[:, : lines[0].picture.shape[1] // 4 * 4]
    expected = tf.nn.softmax(network((line[None] / 127.5 - 1).astype(np.float32), training=False)[:, 0]).numpy()
    found = {}
    for name in ("plain", "small"):
        session = onnxruntime.InferenceSession(str(tmp_path / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        (found[name],) = session.run(None, {"x": network_input(line)})
    np.testing.assert_allclose(found["plain"], expected, atol=1e-4)
    assert found["small"].shape == expected.shape
    assert (tmp_path / "small.onnx").stat().st_size < 0.4 * (tmp_path / "plain.onnx").stat().st_size
