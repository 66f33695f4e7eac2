"""Plots as inline SVG: lines, and columns that are stacked. No script, no font, nothing from elsewhere.

Colours are the style sheet's (classes ``c0`` to ``c6``), so that a plot is readable on light and on dark.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from memeloom.scrapers.report.words import moment, ticks, time_ticks

COLOURS = 7
_WIDTH, _HEIGHT = 600, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 10, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity over time; None is a gap. colour: below `COLOURS`."""

    name: str
    values: Sequence[float | None]
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot: its title, a sentence that says what is seen, how its values are written, and the times in seconds."""

    title: str
    said: str
    times: Sequence[float]
    written: Callable[[float], str]

    def lines(self, lines: Sequence[Line], *, filled: bool = False) -> str:
        """Lines side by side; `filled` shades the area below them."""
        top = max((value for line in lines for value in line.values if value is not None), default=0.0)
        scale = _Scale(self.times, top)
        drawn = []
        for line in lines:
            for run in _runs(self.times, line.values):
                points = [f"{scale.x(when):.1f} {scale.y(value):.1f}" for when, value in run]
                if filled and len(run) > 1:
                    ends = f"{scale.x(run[-1][0]):.1f} {scale.y(0):.1f}L{scale.x(run[0][0]):.1f} {scale.y(0):.1f}"
                    drawn.append(f'<path class="area c{line.colour}" d="M{"L".join(points)}L{ends}Z"/>')
                if len(points) == 1:
                    points *= 2  # a round cap shows it as a dot
                drawn.append(
                    f'<path class="line c{line.colour}" d="M{"L".join(points)}"><title>{_text(line)}</title></path>'
                )
        return self._figure(scale, drawn, lines if len(lines) > 1 else ())

    def columns(self, parts: Sequence[Line]) -> str:
        """Columns that end at each of the times, of equal width, the parts stacked upon each other."""
        sums = [sum(part.values[place] or 0.0 for part in parts) for place in range(len(self.times))]
        scale = _Scale(self.times, max(sums, default=0.0))
        below = [0.0] * len(self.times)
        drawn = []
        for part in parts:
            path = []
            for place, (start, end) in enumerate(pairwise([0.0, *self.times])):
                if value := part.values[place] or 0.0:
                    left, right = scale.x(start), scale.x(end)
                    bottom, upper = scale.y(below[place]), scale.y(below[place] + value)
                    path.append(
                        f"M{left:.1f} {bottom:.1f}V{upper:.1f}H{max(right - 0.5, left + 0.5):.1f}V{bottom:.1f}Z"
                    )
                    below[place] += value
            if path:
                drawn.append(
                    f'<path class="fill c{part.colour}" d="{"".join(path)}"><title>{_text(part)}</title></path>'
                )
        return self._figure(scale, drawn, parts)

    def _figure(self, scale: "_Scale", drawn: Sequence[str], legend: Sequence[Line]) -> str:
        keys = "".join(f'<li><i class="c{line.colour}"></i>{_text(line)}</li>' for line in legend)
        keys = f"<ul>{keys}</ul>" if keys else ""
        empty = (
            "" if drawn else f'<text class="none" x="{(_WIDTH + _LEFT) // 2}" y="{_HEIGHT // 2}">nothing to show</text>'
        )
        name = escape(self.title)
        return (
            f"<figure><figcaption>{name}</figcaption>"
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}: {escape(self.said)}">'
            f"{scale.grid(self.written)}{''.join(drawn)}{empty}</svg>{keys}</figure>"
        )


class _Scale:
    """From seconds and values to places in the picture."""

    def __init__(self, times: Sequence[float], top: float) -> None:
        self._whole = max(times, default=0.0) or 1.0
        self._marks = ticks(top)

    def x(self, when: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * when / self._whole

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / self._marks[-1]

    def grid(self, written: Callable[[float], str]) -> str:
        """Lines and labels of both axes."""
        out = []
        for mark in self._marks:
            y = self.y(mark)
            out.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            out.append(f'<text class="value" x="{_LEFT - 6}" y="{y + 4:.1f}">{escape(written(mark))}</text>')
        for when in time_ticks(self._whole):
            x = self.x(when)
            place = "time" if x < _WIDTH - 30 else "time last"
            out.append(f'<text class="{place}" x="{x:.1f}" y="{_HEIGHT - 8}">{moment(when)}</text>')
        return "".join(out)


def _runs(times: Sequence[float], values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """The stretches without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for when, value in zip(times, values, strict=True):
        if value is not None:
            runs[-1].append((when, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _text(line: Line) -> str:
    return escape(line.name)
