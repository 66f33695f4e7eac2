"""A small line plot as an SVG file, each line on a scale of its own from nought."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 300, 16, 40
_COLOURS = ("#3366aa", "#cc6633", "#559944")


class Line(NamedTuple):
    """Points of one line, joined; the last of them is labelled with its value."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


def plot(path: Path, label: str, lines: Sequence[Line]) -> None:
    """Draw `lines` side by side, a panel each. label: what x is."""
    panel = _WIDTH // len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, line in enumerate(lines):
        parts.append(_panel(line, label, number * panel + _LEFT, panel - 2 * _LEFT, _COLOURS[number % len(_COLOURS)]))
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(line: Line, label: str, left: int, width: int, colour: str) -> str:
    bottom, height = _HEIGHT - _BOTTOM, _HEIGHT - 2 * _BOTTOM
    points = [
        (left + 0.85 * width * x / max(line.xs), bottom - height * y / max(line.ys))
        for x, y in zip(line.xs, line.ys, strict=True)
    ]
    shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    marks = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
        f'<text x="{x + 7:.1f}" y="{y - 8:.1f}">{value:,.0f}</text>'
        f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" fill="#666">{at:.3g}</text>'
        for (x, y), value, at in zip(points, line.ys, line.xs, strict=True)
    ]
    return (
        f'<text x="{left}" y="22" font-weight="bold">{escape(line.name)}</text>'
        f'<line x1="{left}" y1="{bottom}" x2="{left + width}" y2="{bottom}" stroke="#999"/>'
        f'<text x="{left + width}" y="{bottom + 33}" text-anchor="end" fill="#666">{escape(label)}</text>'
        f'<polyline points="{shape}" fill="none" stroke="{colour}" stroke-width="2"/>{"".join(marks)}'
    )
