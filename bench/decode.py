"""Decoding speed of each kind of model.

    python -m bench.decode [--seconds 10]

Models are untrained, which does not change their speed, with default settings; `causal` also with those of
`bench.train`. Captions end at the mean length of real ones. Shows wall time and processor time; compare the latter on a
busy machine.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.rows import Row
from bench.train import NETWORK
from memeloom.configs.load import load_config
from memeloom.configs.progress import SILENT
from memeloom.configs.schema import Train
from memeloom.dataset.manifest import DatasetTemplate, Manifest
from memeloom.train.backend import BACKEND, keras
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Captioner, KindName, Prompt, open_kind
from memeloom.train.corpus import Captions, Dataset
from memeloom.train.decoding.beam import BeamSettings, search_captions
from memeloom.train.decoding.sampling import by_sampling, by_threshold, write_captions
from memeloom.train.pictures.encoder import Encoder
from memeloom.train.pictures.vectors import TemplatePictures
from memeloom.train.show_and_tell.model import ShowAndTellCaptioner
from memeloom.train.show_and_tell.network import build_decoder
from memeloom.train.show_and_tell.words import Words

_LETTERS = "e toanishrlduymwgfcpkb|v,'.x!jz?q0123456789-:;\"()/$%&*+#@_=[]<>^~`{}\\"
# Characters per caption, start text and separators included.
_LONG = 48
_BATCH = 64
_PICTURE = 2048
_TEMPLATES = 48
# More boxes than a caption of that length closes.
_ENDLESS = 99


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long each row is measured")
    options = parser.parse_args()
    table = Table(title=f"train/decoding on {BACKEND}", title_justify="left")
    for column in ("what", "how", "measured", "goal"):
        table.add_column(column)
    settings = load_config(None).train
    for row in (
        *_convnet(settings, options.seconds),
        *_causal(settings, options.seconds),
        *_causal(load_config(None, NETWORK).train, options.seconds),
        _pictures(settings, options.seconds),
    ):
        table.add_row(*row.cells, end_section=row.met is not None)
    Console().print(table)


def _convnet(settings: Train, seconds: float) -> Iterator[Row]:
    own, model = settings.convnet, _untrained("convnet", settings)
    network = model.networks["convnet"]
    what = f"convnet, {own.filters} filters"
    inputs = np.zeros((1, own.sequence_length), np.int32)
    slow = _timed(lambda: network.predict(inputs, verbose=0), seconds)
    yield Row(what, "model.predict a character", _rates(slow, 1, "characters"))
    for rows in (1, _BATCH):
        fast = _timed(_writer(model, rows, by_threshold(0.5)), seconds)
        times = rows * _LONG * float(np.mean(slow[0]) / np.mean(fast[0]))
        figures = {**_rates(fast, rows * _LONG, "characters"), "times predict": f"{times:.0f}"}
        yield Row(what, f"threshold, {rows} at once", figures, "≥ 10 times predict", times >= 10)


def _causal(settings: Train, seconds: float) -> Iterator[Row]:
    model = _untrained("causal", settings)
    what = f"causal, {settings.causal.layers} x {settings.causal.units}"
    alone = _timed(_writer(model, 1, by_sampling()), seconds)
    yield Row(what, "sampling, one caption", _spread(alone), "p50 ≤ 60 ms", _p50(alone) <= 60)
    together = _timed(_writer(model, _BATCH, by_sampling()), seconds)
    rate = _BATCH / float(np.mean(together[0]))
    yield Row(
        what, f"sampling, {_BATCH} at once", _rates(together, _BATCH, "captions"), "≥ 100 captions/s", rate >= 100
    )


def _pictures(settings: Train, seconds: float) -> Row:
    own = settings.show_and_tell
    rng = np.random.default_rng(1)
    spelled = ("".join(rng.choice(list("etaoinshrdlu"), rng.integers(1, 8))) for _ in range(2 * own.max_words))
    words = Words.of(((word, 1) for word in dict.fromkeys(spelled)), own.max_words, "|")
    shape = own.model_dump(include={"embedding", "units", "dropout"})
    decoder = build_decoder(len(words), size=_PICTURE, **shape, seed=1).network
    pixels = keras.Input((75, 75, 3), dtype="uint8")
    # Replaces InceptionV3: the template vectors are in the model's folder, and no picture is encoded.
    encoder = Encoder(keras.Model(pixels, keras.layers.Dense(_PICTURE)(keras.layers.GlobalAveragePooling2D()(pixels))))
    templates = (_template("1", boxes=_ENDLESS),)
    vectors = rng.normal(size=(1, _PICTURE)).astype(np.float32)
    gallery = TemplatePictures(encoder, templates, vectors)
    model = ShowAndTellCaptioner(gallery, decoder, words, Alphabet.of(_LETTERS), templates, 0.01)
    lengths: list[int] = []

    def search() -> None:
        (found,) = search_captions(
            model, [Prompt(templates[0])], BeamSettings(5, 0.7), captions=5, max_characters=_LONG, rng=rng
        )
        lengths.extend(len(made.texts[0].split()) for made in found)

    times = _timed(search, seconds)
    figures = {**_spread(times), "words a caption": f"{np.mean(lengths):.1f}"}
    return Row("show-and-tell, vector cached", "beam, best 5 of 5", figures, "p50 ≤ 50 ms", _p50(times) <= 50)


def _writer(model: Captioner, rows: int, choose: Any) -> Callable[[], None]:
    rng = np.random.default_rng(1)
    prompts = [Prompt(_template(str(number % _TEMPLATES), boxes=_ENDLESS)) for number in range(rows)]

    def write() -> None:
        write_captions(model, prompts, choose, max_characters=_LONG, rng=rng)

    return write


def _timed(work: Callable[[], Any], seconds: float) -> tuple[list[float], float]:
    """Return the seconds of each call, and mean processor seconds; the first two calls, which compile, are excluded."""
    work()
    work()
    took: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds or len(took) < 3:
        at = time.perf_counter()
        work()
        took.append(time.perf_counter() - at)
    return took, (time.process_time() - cpu) / len(took)


def _p50(times: tuple[list[float], float]) -> float:
    return float(np.median(times[0])) * 1000


def _spread(times: tuple[list[float], float]) -> dict[str, str]:
    return {
        "p50": f"{_p50(times):.1f} ms",
        "p95": f"{np.percentile(times[0], 95) * 1000:.1f} ms",
        "processor": f"{times[1] * 1000:.1f} ms",
    }


def _rates(times: tuple[list[float], float], units: int, unit: str) -> dict[str, str]:
    return {
        f"{unit}/s": f"{units / np.mean(times[0]):,.0f}",
        f"{unit}/s of processor": f"{units / times[1]:,.0f}",
    }


def _template(name: str, boxes: int) -> DatasetTemplate:
    return DatasetTemplate(
        id=name, name=name, slug=name, captions=1, boxes=boxes, box_count=None, geometry=(), image_key=None
    )


def _untrained(kind: KindName, settings: Train) -> Captioner:
    """Return a new model of a dataset of a few captions of random letters."""
    rng, count, alphabet = np.random.default_rng(1), 500, Alphabet.of(_LETTERS)
    templates = tuple(_template(str(number), boxes=2) for number in range(_TEMPLATES))
    starts = np.arange(count + 1, dtype=np.int64) * _LONG
    captions = Captions(
        characters=rng.integers(1, len(alphabet) + 1, starts[-1]).astype(np.uint16),
        boxes=np.zeros(starts[-1], np.uint8),
        starts=starts,
        templates=rng.integers(0, _TEMPLATES, count).astype(np.int32),
        prefixes=alphabet.prefixes([template.id for template in templates], 1),
    )
    known: dict[str, Any] = {"templates": templates, "separator": "|"}
    dataset = Dataset(Path(), Manifest.model_construct(**known), alphabet, captions, captions)
    return open_kind(kind).prepare(settings, dataset, SILENT).captioner


if __name__ == "__main__":
    main()
