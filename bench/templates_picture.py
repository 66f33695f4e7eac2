"""How well words come off: the picture of a template from its memes, and of one meme alone.

`python -m bench.templates_picture --data DATA` prints the rows that `bench.templates` puts into its table. Pictures
are compared where both show something, laid on each other first. PSNR is in dB; SSIM as in Wang et al., "Image Quality
Assessment: From Error Visibility to Structural Similarity", 2004, of the brightness, Gaussian window of 1.5 pixels.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.rows import Row
from bench.templates_picture_cases import CleanTemplate, Half, PictureCase, clean_templates, text_area
from memeloom.catalog.images import Pixels, decode_image
from memeloom.catalog.records import OcrBox, TemplateBox
from memeloom.templates.align import warp_onto
from memeloom.templates.boxes import learn_boxes
from memeloom.templates.mask import find_words
from memeloom.templates.median import plain_median
from memeloom.templates.recover import Member, Recovered, Reference, grey_of, layer_of, place_member, recover
from memeloom.templates.sketch import sketch
from memeloom.templates.wordless import Blank, remove_words

Reader: TypeAlias = Callable[[Pixels], tuple[OcrBox, ...]]
Figures: TypeAlias = dict[str, list[float]]

_COUNTS = (10, 50)
_ALONE = 4  # memes of each template whose words are taken off one by one
_GOAL = 0.95
_PART = "pictures"


def pictures(data: Path, templates: int, half: Half = "report") -> list[Row]:
    """Recover up to `templates` templates of `half` from drawn memes, and take words off single memes."""
    chosen = list(clean_templates(data, half, templates))
    rows = [row for count in _COUNTS for row in _recovered(chosen, count)]
    return rows + _alone(chosen)


def _recovered(templates: Sequence[CleanTemplate], count: int) -> list[Row]:
    """Templates from `count` memes each: ours, read and unread, and what is simpler."""
    ways: Mapping[str, Figures] = defaultdict(lambda: defaultdict(list))
    overlaps: list[float] = []
    for template in templates:
        memes = template.memes(count, seed=count)
        truth = Reference.of(template.picture)
        tried = {"ours": _members(memes, read=True)}
        if count == _COUNTS[0]:
            tried["ours, nothing read"] = _members(memes, read=False)
        for name, members in tried.items():
            start = time.process_time()
            found = recover(members)
            ways[name]["seconds"].append(time.process_time() - start)
            if found is None:
                ways[name]["none"].append(1.0)
                continue
            _compare(ways[name], found.picture, found.picture, template.picture, truth)
            if name == "ours":
                _compare_simpler(ways, found, template.picture, truth)
                overlaps += _overlaps(template.boxes, found, template.picture)
    rows = [_recovered_row(name, figures, count, len(templates)) for name, figures in ways.items()]
    boxes = {
        "IoU of boxes": f"{np.mean(overlaps):.3f}",
        "boxes with IoU >= 0.5": f"{np.mean(np.array(overlaps) >= 0.5):.3f}",
    }
    return [*rows, Row(_PART, f"text boxes learned from {count}", boxes)]


def _members(memes: Sequence[PictureCase], *, read: bool) -> list[Member]:
    return [
        Member(f"{number:064x}", decode_image(meme.data), meme.boxes if read else ())
        for number, meme in enumerate(memes)
    ]


def _compare_simpler(ways: Mapping[str, Figures], found: Recovered, clean: Pixels, truth: Reference) -> None:
    layers = [layer_of(each, found.picture.shape[1::-1]) for each in found.placed]
    mean = np.mean([layer.pixels for layer in layers], axis=0).round().astype(np.uint8)
    for name, picture in (("plain median of the aligned", plain_median(layers)), ("plain mean of the aligned", mean)):
        _compare(ways[name], picture, found.picture, clean, truth)


def _compare(figures: Figures, picture: Pixels, placed: Pixels, clean: Pixels, truth: Reference) -> None:
    """Add how near `picture` is to the truth, laid where `placed` shows it."""
    laid = place_member(Member("", clean), truth.sketch, Reference.of(placed))
    if laid is None:
        figures["none"].append(1.0)
        return
    true, there = warp_onto(laid.picture, laid.affine, placed.shape[1::-1])
    figures["psnr"].append(_psnr(picture, true, there))
    figures["ssim"].append(_ssim(picture, true, there))


def _overlaps(true: Sequence[TemplateBox], found: Recovered, clean: Pixels) -> list[float]:
    """For each true box that is upright, how much the best of the learned ones is it."""
    learned = learn_boxes(found.placed, found.picture)
    laid = place_member(Member("", found.picture), sketch(grey_of(found.picture)), Reference.of(clean))
    if laid is None:
        return [0.0] * len(true)
    places = []
    for box in learned:
        x = 1 - box.x - box.width if laid.mirrored else box.x
        corners = np.array([[x, box.y, 1], [x + box.width, box.y + box.height, 1]]) @ laid.affine.T
        places.append(corners.reshape(4))
    upright = [np.array([box.x, box.y, box.x + box.width, box.y + box.height]) for box in true if not box.angle % 360]
    return [max((_iou(one, other) for other in places), default=0.0) for one in upright]


def _recovered_row(name: str, figures: Figures, count: int, templates: int) -> Row:
    shown = {
        "templates": f"{len(figures['psnr'])} of {templates}",
        "PSNR": f"{np.mean(figures['psnr']):.1f} (least {np.min(figures['psnr']):.1f})",
        "SSIM": f"{np.mean(figures['ssim']):.3f}",
    }
    if "seconds" in figures:
        shown["cpu s a template"] = f"{np.mean(figures['seconds']):.1f}"
    return Row(_PART, f"clean picture from {count}: {name}", shown)


def _alone(templates: Sequence[CleanTemplate]) -> list[Row]:
    """Memes one by one: boxes as an engine would tell them, and as one does tell them."""
    ways: Mapping[str, Figures] = defaultdict(lambda: defaultdict(list))
    reader = _reader()
    for template in templates:
        blank = Blank.of(template.picture)
        for meme in template.memes(_ALONE, seed=1000):
            picture = decode_image(meme.data)
            tried = {
                "ours, true boxes": partial(_taken, picture, meme.boxes),
                "ours, template known": partial(_taken, picture, meme.boxes, blank),
                "our mask, Telea": partial(_telea, picture, meme.boxes),
            }
            if reader:
                tried["ours, boxes that rapidocr read"] = partial(_taken, picture, reader(picture))
            for name, way in tried.items():
                _measure(ways[name], picture, meme.clean, way)
    return [_alone_row(name, figures) for name, figures in ways.items()]


def _measure(figures: Figures, picture: Pixels, clean: Pixels, way: Callable[[], Pixels]) -> None:
    start = time.process_time()
    done = way()
    figures["seconds"].append(time.process_time() - start)
    # Smoothed: what compression does to single pixels is no text.
    soft = (np.asarray(cv2.GaussianBlur(each, (0, 0), 1), np.uint8) for each in (clean, picture))
    area = np.asarray(cv2.dilate(text_area(*soft), np.ones((5, 5), np.uint8)), np.uint8)
    before, after = _psnr(picture, clean, area), _psnr(done, clean, area)
    figures["better"].append(float(after > before))
    figures["psnr"].append(after)
    figures["left"].append(before)


def _taken(picture: Pixels, boxes: Sequence[OcrBox], blank: Blank | None = None) -> Pixels:
    done = remove_words(picture, boxes, blank)
    return done.picture if done else picture


def _telea(picture: Pixels, boxes: Sequence[OcrBox]) -> Pixels:
    return np.asarray(cv2.inpaint(picture, find_words(picture, boxes).mask, 3, cv2.INPAINT_TELEA), np.uint8)


def _alone_row(name: str, figures: Figures) -> Row:
    better = float(np.mean(figures["better"]))
    shown = {
        "better than leaving the text": f"{better:.3f} of {len(figures['better'])}",
        "PSNR in the text area": f"{np.mean(figures['psnr']):.1f} (text left: {np.mean(figures['left']):.1f})",
        "ms a meme": f"{1000 * np.mean(figures['seconds']):.0f}",
    }
    if not name.startswith("ours"):
        return Row(_PART, f"one meme: {name}", shown)
    return Row(_PART, f"one meme: {name}", shown, f"better for >= {_GOAL}", better >= _GOAL)


def _reader() -> Reader | None:
    """What reads as the OCR stage does; None if its engine is not installed."""
    if find_spec("rapidocr") is None:
        return None
    from memeloom.configs.load import load_config
    from memeloom.ocr.engines.registry import open_engine
    from memeloom.ocr.read import read_picture

    settings = load_config(overrides=["ocr.engine=rapidocr"], environment={}).ocr
    engine = open_engine(settings)
    return lambda picture: read_picture(picture, engine, settings).boxes


def _psnr(one: Pixels, other: Pixels, where: Pixels) -> float:
    error = float(((one.astype(np.float64) - other)[where > 0] ** 2).mean()) if where.any() else 0.0
    return float(10 * np.log10(255**2 / max(error, 1e-2)))


def _ssim(one: Pixels, other: Pixels, where: Pixels) -> float:
    a, b = (grey_of(each).astype(np.float64) for each in (one, other))

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(values, (11, 11), 1.5), np.float64)

    mean_a, mean_b = mean(a), mean(b)
    variance_a, variance_b, together = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2, mean(a * b) - mean_a * mean_b
    first, second = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similar = (2 * mean_a * mean_b + first) * (2 * together + second)
    similar /= (mean_a**2 + mean_b**2 + first) * (variance_a + variance_b + second)
    return float(similar[where > 0].mean())


def _iou(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    shared = np.concatenate([np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])])
    if (shared[2:] <= shared[:2]).any():
        return 0.0
    area = [float(np.prod(each[2:] - each[:2])) for each in (shared, one, other)]
    return area[0] / (area[1] + area[2] - area[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds templates/ and captions")
    parser.add_argument("--templates", type=int, default=40)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    options = parser.parse_args()
    for row in pictures(options.data, options.templates, options.half):
        print(row.who, dict(row.figures), row.cells[3], sep="  ", flush=True)


if __name__ == "__main__":
    main()
