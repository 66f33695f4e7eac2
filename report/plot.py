"""Plots as SVG without scripts or fonts, in colours that follow light and dark.

`figure` draws a plot for a page; `picture` draws plots as a stand-alone SVG file.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import chain, groupby
from pathlib import Path
from typing import Final, Literal, TypeAlias

from markupsafe import Markup

from memeloom.report.format import clock, compact

COLOURS: Final = 7
WIDTH, HEIGHT = 480, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 24
_LABEL_HEIGHT, _TITLE_HEIGHT, _NAMES_WIDTH, _GAP = 18, 34, 96, 20
_LEAST_HEIGHT = 1.5  # a small column among large ones stays visible
_DASHES = ("none", "7 4", "2 3", "10 3 2 3")
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)

Point: TypeAlias = tuple[float, float | None]
Ticks: TypeAlias = Mapping[float, str]


@dataclass(frozen=True, slots=True)
class Series:
    """Points (x, y) in order of x; a y of None is a gap. tips: said when the pointer rests on a column."""

    name: str
    points: Sequence[Point]
    tips: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What to draw.

    kind: ``columns`` end at their x and begin at the previous one; several series are stacked.
    summary: one sentence, for screen readers.
    x_range: by default from 0 to the last x. y_min: where the y axis begins; None: near the least value.
    x_ticks, y_ticks: labels by value; by default round values. levels: horizontal dashed lines by name.
    dots: mark each point. log: logarithmic axes, for values from 1.
    """

    title: str
    series: Sequence[Series]
    kind: Literal["lines", "area", "columns"] = "lines"
    summary: str = ""
    x_label: str = ""
    x_range: tuple[float, float] | None = None
    x_ticks: Ticks | None = None
    x_format: Callable[[float], str] = compact
    y_ticks: Ticks | None = None
    y_min: float | None = 0.0
    y_format: Callable[[float], str] = compact
    levels: Mapping[str, float] = field(default_factory=dict)
    dots: bool = False
    log: bool = False


def figure(plot: Plot) -> Markup:
    """Draw `plot` as an HTML figure with its title and, for several series, a legend."""
    keys = [f'<i class="c{at % COLOURS}"></i>{escape(each.name)}' for at, each in enumerate(plot.series)]
    keys += [f'<i class="level"></i>{escape(name)}' for name in plot.levels]
    legend = f"<ul>{''.join(f'<li>{key}</li>' for key in keys)}</ul>" if len(keys) > 1 else ""
    height = HEIGHT + (_LABEL_HEIGHT if plot.x_label else 0)
    return Markup(  # noqa: S704 -- each part is escaped
        f'<figure class="plot"><figcaption>{escape(plot.title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_described(plot)}">{_Drawing(plot).svg()}</svg>'
        f"{legend}</figure>"
    )


def picture(plots: Sequence[Plot], columns: int = 2) -> str:
    """Draw `plots` in a grid, as the text of an SVG file; names stand beside the ends of lines."""
    wide, high = WIDTH + _NAMES_WIDTH + _GAP, HEIGHT + _LABEL_HEIGHT + _TITLE_HEIGHT
    panels = "".join(
        f'<g transform="translate({at % columns * wide} {at // columns * high})" role="img" '
        f'aria-label="{_described(plot)}"><text class="title" x="{_LEFT}" y="22">{escape(plot.title)}</text>'
        f'<g transform="translate(0 {_TITLE_HEIGHT})">{_Drawing(plot).svg(named=True)}</g></g>\n'
        for at, plot in enumerate(plots)
    )
    box = min(columns, len(plots)) * wide, math.ceil(len(plots) / columns) * high
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {box[0]} {box[1]}">\n<style>{style()}</style>\n'
        f'<rect class="paper" width="100%" height="100%"/>\n<g class="plot">\n{panels}</g></svg>\n'
    )


@cache
def style() -> str:
    """Return the style sheet of plots: colours for light and dark, and how lines and texts look."""
    return Path(__file__).with_name("plot.css").read_text(encoding="utf-8")


def round_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return values at steps of 1, 2 or 5 times a power of ten, from at most `low` to at least `high`."""
    if not high > low:
        if not low:
            return [0.0, 1.0]
        low, high = low - abs(low) / 2, low + abs(low) / 2
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * place for place in range(first, last + 1)]


def time_step(whole: float, parts: int) -> float:
    """Return the shortest round duration of which `parts` reach as far as `whole` seconds."""
    step = next((step for step in _TIME_STEPS if step * parts >= whole), None)
    return float(step or 86400 * math.ceil(whole / parts / 86400))


def time_ticks(whole: float, about: int = 6) -> dict[float, str]:
    """Return round times from 0 to `whole` seconds with their labels."""
    step = time_step(whole, about)
    return {step * place: clock(step * place) for place in range(int(whole / step) + 1)}


def _described(plot: Plot) -> str:
    return escape(f"{plot.title}: {plot.summary}" if plot.summary else plot.title)


class _Drawing:
    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        xs = [x for series in plot.series for x, _ in series.points] or [0.0]
        ys = [*self._heights(), *plot.levels.values()] or [0.0]
        self._x_range = plot.x_range or ((1.0, max(xs)) if plot.log else (0.0, max(xs)))
        low = min(ys) if plot.y_min is None else plot.y_min
        if plot.log:
            up, across = ([10.0**power for power in range(math.ceil(math.log10(max(*vs, 10))) + 1)] for vs in (ys, xs))
        else:
            up, across = round_ticks(low, max(ys)), round_ticks(*self._x_range, 5)
        across = [x for x in across if self._x_range[0] <= x <= self._x_range[1]]
        self._y_ticks: Ticks = plot.y_ticks or {y: plot.y_format(y) for y in up}
        self._x_ticks: Ticks = {x: plot.x_format(x) for x in across} if plot.x_ticks is None else plot.x_ticks
        self._y_range = min(self._y_ticks), max(self._y_ticks)

    def svg(self, *, named: bool = False) -> str:
        """Return the SVG elements. named: label lines at their ends."""
        plot, middle = self._plot, (WIDTH + _LEFT) // 2
        drawn = self._columns() if plot.kind == "columns" else "".join(map(self._line, range(len(plot.series))))
        levels = [f'<path class="level" d="M{_LEFT} {self._y(y):.1f}H{WIDTH - _RIGHT}"/>' for y in plot.levels.values()]
        parts = [self._grid(), *levels, drawn or _text("centred", middle, HEIGHT / 2, "nothing to show")]
        if plot.x_label:
            parts.append(_text("centred", middle, HEIGHT + 10, plot.x_label))
        return "".join(parts) + (self._names() if named else "")

    def _heights(self) -> list[float]:
        """Return every y value; for columns, the totals of the stacks."""
        if self._plot.kind != "columns":
            return [y for series in self._plot.series for _, y in series.points if y is not None]
        stacks: dict[float, float] = {}
        for x, y in chain.from_iterable(series.points for series in self._plot.series):
            stacks[x] = stacks.get(x, 0.0) + (y or 0.0)
        return list(stacks.values())

    def _x(self, x: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * self._share(x, self._x_range)

    def _y(self, y: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * self._share(y, self._y_range)

    def _share(self, value: float, ends: tuple[float, float]) -> float:
        low, high = ends
        if self._plot.log:
            value, low, high = math.log10(max(value, 1)), math.log10(low), math.log10(high)
        return (value - low) / (high - low) if high > low else 0.5

    def _grid(self) -> str:
        parts = []
        for value, label in self._y_ticks.items():
            y = self._y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
            parts.append(_text("value", _LEFT - 6, y + 4, label))
        for value, label in self._x_ticks.items():
            x = self._x(value)
            parts.append(_text("value" if x > WIDTH - 26 else "centred", x, HEIGHT - 7, label))
        return "".join(parts)

    def _line(self, at: int) -> str:
        series, look, floor = self._plot.series[at], f"c{at % COLOURS}", self._y(self._y_range[0])
        dashes = f'stroke-dasharray="{_DASHES[at // COLOURS % len(_DASHES)]}"'
        drawn = []
        for known, run in groupby(series.points, key=lambda point: point[1] is not None):
            places = [f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in run if y is not None]
            if not known:
                continue
            if self._plot.kind == "area" and len(places) > 1:
                ends = f"V{floor:.1f}H{places[0].split()[0]}Z"
                drawn.append(f'<path class="area {look}" d="M{"L".join(places)}{ends}"/>')
            places *= 2 if len(places) == 1 else 1  # a round cap shows a single point as a dot
            drawn.append(f'<path class="line {look}" {dashes} d="M{"L".join(places)}">{_tip(series.name)}</path>')
        if self._plot.dots:
            drawn += [
                f'<circle class="fill {look}" cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="3.4">'
                f"{_tip(f'{series.name}: {self._plot.y_format(y)}')}</circle>"
                for x, y in series.points if y is not None
            ]  # fmt: skip
        return "".join(drawn)

    def _columns(self) -> str:
        tops: dict[float, float] = {}
        drawn = []
        for at, series in enumerate(self._plot.series):
            look, shapes, before = f"fill c{at % COLOURS}", [], self._x_range[0]
            for place, (x, y) in enumerate(series.points):
                left, right, before = self._x(before), self._x(x), x
                if not y:
                    continue
                bottom = tops.get(x, self._y(self._y_range[0]))
                tops[x] = top = min(bottom - (self._y(0) - self._y(y)), bottom - _LEAST_HEIGHT)
                shape = f"M{left:.1f} {bottom:.1f}V{top:.1f}H{max(right - 0.7, left + 0.5):.1f}V{bottom:.1f}Z"
                if series.tips:
                    drawn.append(f'<path class="{look}" d="{shape}">{_tip(series.tips[place])}</path>')
                else:
                    shapes.append(shape)
            if shapes:
                drawn.append(f'<path class="{look}" d="{"".join(shapes)}">{_tip(series.name)}</path>')
        return "".join(drawn)

    def _names(self) -> str:
        """Return the labels at the ends of lines and levels, moved apart where they would overlap."""
        ends = [(self._y(y), f"c{at % COLOURS}", series.name) for at, series in enumerate(self._plot.series)
                for y in [next((y for _, y in reversed(series.points) if y is not None), None)]
                if y is not None and len(self._plot.series) > 1]  # fmt: skip
        ends += [(self._y(y), "soft", name) for name, y in self._plot.levels.items()]
        parts, lowest = [], 0.0
        for y, look, name in sorted(ends):
            lowest = max(y + 4, lowest + 13)
            parts.append(_text(f"name {look}", WIDTH - _RIGHT + 8, lowest, name))
        return "".join(parts)


def _text(look: str, x: float, y: float, text: str) -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>"
