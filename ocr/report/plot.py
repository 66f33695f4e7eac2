"""How sure the readings of a run are, as a plot: inline SVG in the colours of the page's style sheet."""

from collections.abc import Sequence
from itertools import pairwise

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 190, 60, 12, 14, 24
_FLOOR = _HEIGHT - _BOTTOM
# Points of confidence that a column spans, and pixels that the least of them is high: few among many are to be seen.
_SPAN, _LEAST = 2, 1.5


def plot_confidences(kept: Sequence[int], dropped: Sequence[int]) -> str:
    """Columns of kept and dropped readings, stacked; both are counts by half points of confidence, 0 to 100."""
    starts = range(0, 200, 2 * _SPAN)
    # Those that are entirely sure belong to the last column.
    bounds = list(pairwise([*starts, len(kept)]))
    columns = [(sum(kept[start:end]), sum(dropped[start:end])) for start, end in bounds]
    most = max(map(sum, columns))
    if not most:
        return '<p class="soft">No words were read.</p>'
    drawn = "".join(_column(number, *counts, most) for number, counts in enumerate(columns))
    return (
        f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Readings by confidence, 0 to 100; at most {most:,} in a column">{_axes(most)}{drawn}</svg>'
        '<ul class="legend"><li><i class="sure"></i>kept</li><li><i class="gone"></i>dropped</li></ul></div>'
    )


def _column(number: int, kept: int, dropped: int, most: int) -> str:
    left, right = _x(number * _SPAN), _x((number + 1) * _SPAN)
    drawn, y = "", float(_FLOOR)
    for look, name, n in (("sure", "kept", kept), ("gone", "dropped", dropped)):
        if n:
            tall = max(n / most * (_FLOOR - _TOP), _LEAST)
            y -= tall
            drawn += (
                f'<rect class="{look}" x="{left + 0.5:.1f}" y="{y:.1f}" width="{right - left - 1:.1f}" '
                f'height="{tall:.1f}"><title>{number * _SPAN} to {(number + 1) * _SPAN}: {n:,} {name}</title></rect>'
            )
    return drawn


def _axes(most: int) -> str:
    marks = "".join(f'<text x="{_x(mark):.1f}" y="{_HEIGHT - 6}">{mark}</text>' for mark in range(0, 101, 10))
    return (
        f'<path d="M{_LEFT} {_FLOOR}H{_WIDTH - _RIGHT}M{_LEFT} {_TOP}H{_WIDTH - _RIGHT}"/>'
        f'<text class="value" x="{_LEFT - 6}" y="{_TOP + 4}">{most:,}</text>'
        f'<text class="value" x="{_LEFT - 6}" y="{_FLOOR + 4}">0</text>{marks}'
    )


def _x(confidence: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * confidence / 100
