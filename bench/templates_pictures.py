"""Clean pictures recovered from memes, with and without readings: `python -m bench.templates_pictures --data DATA`.

Memes are drawn with captions of their template and compressed (`bench.templates_drawn`), then read by `memeloom ocr`'s
default engine. PSNR is against the template's picture, aligned to the recovered one, where both show something.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from bench.rows import Row, print_parts
from bench.templates_drawn import Blank, Half, drawn, has_captions, load_blanks
from memeloom.catalog.images import Pixels, decode_image
from memeloom.configs.load import load_config
from memeloom.ocr.engines.registry import open_engine
from memeloom.ocr.read import read_picture
from memeloom.templates.align import warp_onto
from memeloom.templates.recover import Member, Reference, place_member, recover

_GOAL = 38.0  # dB


def pictures(data: Path, half: Half, templates: int, memes: int, *, harmed: bool) -> Iterator[Row]:
    """Yield a row per template of `half` that has captions, and one of means."""
    cv2.setNumThreads(1)
    settings = load_config(environment={}).ocr
    engine = open_engine(settings)
    distances: list[tuple[float, float]] = []
    for blank in [each for each in load_blanks(data) if each.half == half and has_captions(data, each)][:templates]:
        shown = [decode_image(meme.data) for meme in drawn(data, half, memes, 3, blanks=[blank], harmed=harmed)]
        boxes = [read_picture(picture, engine, settings).ocr.boxes for picture in shown]
        unread = [Member(f"{number:064x}", picture) for number, picture in enumerate(shown)]
        read = [Member(each.key, each.picture, found) for each, found in zip(unread, boxes, strict=True)]
        distances.append((_distance(read, blank), _distance(unread, blank)))
        with_, without = distances[-1]
        yield Row("template", blank.name, {"with readings": f"{with_:.1f} dB", "without": f"{without:.1f} dB"})
    with_, without = np.mean(distances, axis=0)
    worse = sum(one < other for one, other in distances)
    figures = {"with readings": f"{with_:.1f} dB", "without": f"{without:.1f} dB", "worse": f"{worse}"}
    yield Row(
        "mean", f"{len(distances)} templates", figures, f">= {_GOAL} dB, none worse", with_ >= _GOAL and not worse
    )


def _distance(members: list[Member], blank: Blank) -> float:
    """Return the PSNR in dB of the picture recovered from `members`; 0 if there is none."""
    found = recover(members)
    truth = np.ascontiguousarray(np.asarray(blank.picture, np.uint8)[:, :, ::-1])
    placed = place_member(Member("", truth), Reference.of(found.picture)) if found else None
    if not found or not placed:
        return 0.0
    true, there = warp_onto(placed.picture, placed.affine, found.picture.shape[1::-1])
    return _psnr(found.picture[there > 0], true[there > 0])


def _psnr(one: Pixels, other: Pixels) -> float:
    return float(10 * np.log10(255**2 / max(1e-2, ((one.astype(np.float64) - other) ** 2).mean())))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds templates/ and captions")
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--templates", type=int, default=24)
    parser.add_argument("--memes", type=int, default=12, help="memes of each template")
    parser.add_argument("--harmed", action="store_true", help="crop, frame, mirror, mark and scale memes, too")
    given = parser.parse_args()
    print_parts(
        "pictures", ["pictures"],
        lambda _: pictures(given.data, given.half, given.templates, given.memes, harmed=given.harmed),
    )  # fmt: skip


if __name__ == "__main__":
    main()
