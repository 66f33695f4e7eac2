"""Small line plots as SVG files: lines side by side, each on a scale of its own, or together on one; from nought."""

import math
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
    _write(path, [
        _panel(line, label, number * panel + _LEFT, panel - 2 * _LEFT, _COLOURS[number % len(_COLOURS)])
        for number, line in enumerate(lines)
    ])  # fmt: skip


def plot_together(
    path: Path, labels: tuple[str, str], lines: Sequence[Line], steps: tuple[float, float], goals: Sequence[float]
) -> None:
    """Draw `lines` on one scale. labels: what x and y are. steps: of the grid. goals: values with a dashed line."""
    left, right, top, bottom = 56, _WIDTH - 90, 30, _HEIGHT - _BOTTOM
    most_x = max(x for line in lines for x in line.xs)
    most_y = steps[1] * math.ceil(max(y for line in lines for y in line.ys) / steps[1])

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * x / most_x, bottom - (bottom - top) * y / most_y

    parts = [f'<text x="{left}" y="18" fill="#666">{escape(labels[1])}</text>']
    for number in range(round(most_y / steps[1]) + 1):
        _, y = place(0, number * steps[1])
        parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{number * steps[1]:g}</text>')
    for number in range(int(most_x / steps[0]) + 1):
        x, _ = place(number * steps[0], 0)
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" fill="#666">{number * steps[0]:g}</text>'
        )
    parts.append(f'<text x="{right}" y="{bottom + 33}" text-anchor="end" fill="#666">{escape(labels[0])}</text>')
    for goal in goals:
        _, y = place(0, goal)
        parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#999" stroke-dasharray="4 4"/>')
        parts.append(f'<text x="{right + 6}" y="{y + 14:.1f}" fill="#666">{goal:g}</text>')
    for line, colour in zip(lines, _COLOURS, strict=False):
        points = [place(x, y) for x, y in zip(line.xs, line.ys, strict=True)]
        shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{shape}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        x, y = points[-1]
        parts.append(f'<text x="{x + 8:.1f}" y="{y - 3:.1f}" fill="{colour}">{escape(line.name)}</text>')
    _write(path, parts)


def _write(path: Path, parts: Sequence[str]) -> None:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="white"/>'
    )
    path.write_text("\n".join([head, *parts, "</svg>"]) + "\n", encoding="utf-8")


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
