"""The curves of a training as one SVG picture of four panels."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 40, 34
_FIRST, _SECOND = "#3366aa", "#cc6633"


class _Panel(NamedTuple):
    """lines: the names of columns, and what each is called; the second is drawn in another colour."""

    title: str
    lines: tuple[tuple[str, str], ...]
    from_nought: bool


def plotted(history: Sequence[Mapping[str, Any]], unit: str) -> str:
    """Loss, accuracy, learning rate and speed over the steps, as the text of an SVG file."""
    both = ("training", "validation")
    panels = (
        _Panel("loss", tuple(zip(("loss", "validation_loss"), both, strict=True)), from_nought=False),
        _Panel("accuracy", tuple(zip(("accuracy", "validation_accuracy"), both, strict=True)), from_nought=False),
        _Panel("learning rate", (("learning_rate", ""),), from_nought=True),
        _Panel(f"{unit} a second", ((f"{unit}_per_second", ""),), from_nought=True),
    )
    drawn = [
        f'<g transform="translate({number % 2 * _WIDTH} {number // 2 * _HEIGHT})">{_panel(panel, history)}</g>'
        for number, panel in enumerate(panels)
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {2 * _HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        *drawn,
        "</svg>\n",
    ])  # fmt: skip


def _panel(panel: _Panel, history: Sequence[Mapping[str, Any]]) -> str:
    values = [float(row[name]) for row in history for name, _ in panel.lines]
    low, high = 0.0 if panel.from_nought else min(values), max(values)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    last = int(history[-1]["step"])
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def place(step: int, value: float) -> tuple[float, float]:
        return _LEFT + (right - _LEFT) * step / last, floor - (floor - _TOP) * (value - low) / (high - low)

    parts = [
        f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(panel.title)}</text>',
        *(_level(level, place(0, level)[1], right) for level in (low, (low + high) / 2, high)),
        f'<text x="{_LEFT}" y="{floor + 18}" fill="#666">0</text>'
        f'<text x="{right}" y="{floor + 18}" text-anchor="end" fill="#666">step {last:,}</text>',
    ]
    for number, ((name, called), colour) in enumerate(zip(panel.lines, (_FIRST, _SECOND), strict=False)):
        points = [place(int(row["step"]), float(row[name])) for row in history]
        shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        x, y = points[-1]
        parts.append(
            f'<polyline points="{shape}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        )
        if called:
            left = _LEFT + 110 + 90 * number
            parts.append(f'<text x="{left}" y="20" fill="{colour}">{called}</text>')
    return "".join(parts)


def _level(value: float, y: float, right: float) -> str:
    return (
        f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{_short(value)}</text>'
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
