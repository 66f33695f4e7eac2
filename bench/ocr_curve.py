"""Accuracy over speed on the tuning halves, one choice varied at a time: the plot that defaults are chosen from."""

import multiprocessing
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench import ocr_cases
from bench.ocr_cases import Case
from bench.ocr_readers import Reader, float_rapid, open_reader, stage_reader
from bench.ocr_score import score
from memeloom.catalog.images import decode_image
from memeloom.ocr.words import WordModel

_REAL, _DRAWN = 172, 100
_SIDES = (224, 256, 288, 320, 340, 384, 448, 544)
_DEFAULT_SIDE = 340
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 860, 460, 70, 60, 72
_COLOURS = {"real": "#2563a8", "drawn": "#b4561f"}


@dataclass(frozen=True)
class Point:
    """One choice. f1: harmonic mean of word recall and precision, by kind of meme; rate: images a processor second."""

    name: str
    rate: float
    f1: dict[str, float]


def points(data: Path, limit: int | None, console: Console) -> list[Point]:
    """Measure every choice; each in a process of its own."""
    kinds = {
        "real": ocr_cases.real(data, "tune")[: min(limit or _REAL, _REAL)],
        "drawn": ocr_cases.drawn(data, "tune", min(limit or _DRAWN, _DRAWN)),
    }
    words = WordModel.of(ocr_cases.catalog_captions(data, kinds["real"] + kinds["drawn"])).to_bytes()
    found = []
    for name in _choices():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            point = pool.submit(_measure, name, kinds, words).result()
        found.append(point)
        shown = ", ".join(f"{kind} F1 {f1:.3f}" for kind, f1 in point.f1.items())
        console.print(f"  {name}: {shown} at {point.rate:.1f} images/cpu-s")
    return found


def draw_curve(found: Sequence[Point], path: Path) -> None:
    """An SVG of all points: F1 over images a processor second."""
    rates = [point.rate for point in found]
    scores = [f1 for point in found for f1 in point.f1.values()]
    most, least = 1.1 * max(rates), max(0.0, min(scores) - 0.02)

    def place(rate: float, f1: float) -> tuple[float, float]:
        return _LEFT + rate / most * (_WIDTH - _LEFT - 20), _TOP + (1 - f1) / (1 - least) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_axes(most, least, place)]
    for point in found:
        for kind, f1 in point.f1.items():
            x, y = place(point.rate, f1)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_COLOURS[kind]}"><title>')
            parts.append(f"{point.name}, {kind}: {f1:.3f} at {point.rate:.1f}/s</title></circle>")
    for number, point in enumerate(sorted(found, key=lambda point: point.rate)):
        # Neighbours' names lean away from each other.
        above = number % 2 == 0
        x, y = place(point.rate, (max if above else min)(point.f1.values()))
        y, angle = (y - 7, -50) if above else (y + 12, 50)
        turned = f'transform="rotate({angle} {x:.1f} {y:.1f})"'
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="10" {turned}>{point.name}</text>')
    for number, (kind, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 12 + 130 * number
        parts.append(f'<circle cx="{x}" cy="{_HEIGHT - 14}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 9}" y="{_HEIGHT - 10}" font-size="12">{kind} memes</text>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _axes(most: float, least: float, place: Callable[[float, float], tuple[float, float]]) -> str:
    lines = []
    for step in range(6):
        f1 = least + (1 - least) * step / 5
        x, y = place(0, f1)
        lines.append(f'<line x1="{x}" y1="{y:.1f}" x2="{_WIDTH - 20}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x - 8}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{f1:.2f}</text>')
    for rate in range(0, int(most) + 1, max(1, round(most / 6))):
        x, y = place(rate, least)
        lines.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" font-size="12" text-anchor="middle">{rate}</text>')
    x, y = place(most, least)
    lines.append(
        f'<text x="{x:.1f}" y="{y + 36:.1f}" font-size="12" text-anchor="end">images a processor second</text>'
    )
    lines.append(f'<text x="12" y="{_TOP - 18}" font-size="12">word F1</text>')
    return "\n".join(lines)


def _choices() -> list[str]:
    sides = [f"side {side}" for side in _SIDES]
    return [*sides, "floats", "no words", "confidence 80", "confidence 90", "tesseract"]


def _open(name: str, words: bytes) -> Reader:
    from memeloom.ocr.engines.rapidocr import RapidOcr
    from memeloom.ocr.models.networks import networks

    kind, _, value = name.partition(" ")
    side = int(value) if kind == "side" else _DEFAULT_SIDE
    match kind:
        case "floats":
            return stage_reader(float_rapid(), words)
        case "tesseract":
            return open_reader("tesseract, ours (program)", words)
        case "confidence":
            return stage_reader(RapidOcr(networks("eng"), 60), words, min_confidence=float(value))
        case "no":
            return stage_reader(RapidOcr(networks("eng"), 60), b"")
    return stage_reader(RapidOcr(networks("eng"), 60, side), words)


def _measure(name: str, kinds: dict[str, list[Case]], words: bytes) -> Point:
    read = _open(name, words)
    read(decode_image(kinds["real"][0].data))
    f1, seconds = {}, 0.0
    for kind, cases in kinds.items():
        before = _cpu_seconds()
        texts = [read(decode_image(case.data)) for case in cases]
        seconds += _cpu_seconds() - before
        found = score(texts, cases, corrected=True)
        f1[kind] = 2 * found.recall * found.precision / max(found.recall + found.precision, 1e-9)
    return Point(name, sum(map(len, kinds.values())) / seconds, f1)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
