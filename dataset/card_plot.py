"""The plots of the card: inline SVG and bars of HTML, in the colours of the page's style sheet."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

# Units of the SVGs, which take the width that they are given: letters stay readable on a phone.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 210, 54, 8, 16, 26
_FLOOR = _HEIGHT - _BOTTOM
_LEAST = 1.5  # units that the least of a column is high: few among many are to be seen
_POINTS = 240

STYLE = """
.bars th:first-child { min-width: 6.5rem; } .bars thead th { white-space: nowrap; }
.bars td.bar { width: 42%; min-width: 4.5rem; padding-right: .6rem; vertical-align: middle; }
.bars i, .stack i { display: block; height: .8rem; min-width: 2px; border-radius: .15rem; background: var(--link); }
.bars tr.good i { background: var(--good); } .bars tr.bad i { background: var(--warn); }
.stack { display: flex; gap: 2px; margin: .6rem 0; } .stack i { height: 1.4rem; }
.stack i:nth-child(2) { opacity: .6; } .stack i:nth-child(3) { opacity: .35; }
.chart { background: var(--card); border-radius: .5rem; padding: .7rem .8rem .5rem; }
.chart text { font-size: 12px; fill: var(--soft); text-anchor: middle; } .chart .value { text-anchor: end; }
.chart rect { fill: var(--link); } .chart path { fill: none; stroke: var(--rule); }
.chart path.line { stroke: var(--link); stroke-width: 2.2; stroke-linejoin: round; }
.chart path.area { fill: var(--link); fill-opacity: .12; stroke: none; }
@media (max-width: 40rem) { .bars td.bar { width: 34%; } .bars .n { padding-left: .5rem; }
  .chart text { font-size: 15px; } .chart text.often { font-size: 13px; } }
"""


class Column(NamedTuple):
    """A column. label: what stands below it, if anything. name: what is told when one points at it. height: a count."""

    label: str
    name: str
    height: int


def columns(values: Sequence[Column], said: str) -> str:
    """Columns beside each other. said: what the plot shows, for those who do not see it."""
    most = max((each.height for each in values), default=0)
    if not most:
        return '<p class="soft">none</p>'
    step = (_WIDTH - _LEFT - _RIGHT) / len(values)
    # Labels that stand close.
    often = ' class="often"' if sum(bool(each.label) for each in values) > 20 else ""
    drawn = []
    for number, each in enumerate(values):
        left, tall = _LEFT + number * step, max(each.height / most * (_FLOOR - _TOP), _LEAST if each.height else 0)
        drawn.append(
            f'<rect x="{left + 0.07 * step:.1f}" y="{_FLOOR - tall:.1f}" width="{0.86 * step:.1f}" '
            f'height="{tall:.1f}"><title>{escape(each.name)}: {each.height:,}</title></rect>'
        )
        if each.label:
            drawn.append(f'<text{often} x="{left + step / 2:.1f}" y="{_HEIGHT - 8}">{escape(each.label)}</text>')
    return _chart(f"{said}; at most {most:,} in a column", _axes(_compact(most), "0") + "".join(drawn))


def ranks(counts: Sequence[int], said: str) -> str:
    """Counts by their rank, the most first, both on a logarithmic scale."""
    if not counts or counts[0] < 1:
        return '<p class="soft">none</p>'
    wide, high = math.log(max(len(counts), 2)), math.log(max(counts[0], 2))

    def x(rank: float) -> float:
        return _LEFT + 8 + (_WIDTH - _LEFT - _RIGHT - 20) * math.log(rank) / wide

    def y(count: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * math.log(max(count, 1)) / high

    some = sorted({round(len(counts) ** (step / _POINTS)) for step in range(_POINTS + 1)})
    line = "L".join(f"{x(rank):.1f} {y(counts[rank - 1]):.1f}" for rank in some)
    below = (
        f'<path d="M{x(mark):.1f} {_FLOOR}v4"/><text x="{x(mark):.1f}" y="{_HEIGHT - 8}">{mark:,}</text>'
        for mark in _marks(len(counts))
    )
    beside = (
        f'<path d="M{_LEFT} {y(mark):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text class="value" x="{_LEFT - 6}" y="{y(mark) + 4:.1f}">{_compact(mark)}</text>'
        for mark in _powers(counts[0])
    )
    area = f"M{x(1):.1f} {_FLOOR}L{line}L{x(len(counts)):.1f} {_FLOOR}Z"
    return _chart(said, f'{"".join((*below, *beside))}<path class="area" d="{area}"/><path class="line" d="M{line}"/>')


def bars(head: Sequence[str], rows: Iterable[tuple[str, int, Sequence[str], str]], *, whole: int | None = None) -> str:
    """A table whose second column is a bar as long as the number says; all names and cells are escaped here.

    head: the names of the columns but that of the bar. rows: name, number, further cells, and a look: ``good``,
    ``bad`` or none. whole: what a full bar stands for; else the largest number.
    """
    rows = list(rows)
    full = whole or max((count for _, count, _, _ in rows), default=0)
    if not full:
        return '<p class="soft">none</p>'
    titles = "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in head[1:])
    body = "".join(
        f'<tr{f" class={look}" if look else ""}><th scope="row"><bdi>{escape(name)}</bdi></th>'
        f'<td class="bar">{f"<i style=width:{100 * count / full:.2f}%></i>" if count else ""}</td>'
        f'<td class="n">{count:,}</td>{"".join(f"""<td class="n">{escape(cell)}</td>""" for cell in cells)}</tr>'
        for name, count, cells, look in rows
    )
    return (
        f'<div class="wide"><table class="bars"><thead><tr><th scope="col">{escape(head[0])}</th><th></th>{titles}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def stack(parts: Sequence[tuple[str, int]]) -> str:
    """The parts of a whole in one bar."""
    drawn = (f'<i style="flex-grow:{count}" title="{escape(name)}: {count:,}"></i>' for name, count in parts if count)
    return f'<div class="stack" aria-hidden="true">{"".join(drawn)}</div>'


def _chart(said: str, drawn: str) -> str:
    return (
        f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">'
        f"{drawn}</svg></div>"
    )


def _axes(top: str, floor: str) -> str:
    return (
        f'<path d="M{_LEFT} {_FLOOR}H{_WIDTH - _RIGHT}M{_LEFT} {_TOP}H{_WIDTH - _RIGHT}"/>'
        f'<text class="value" x="{_LEFT - 6}" y="{_TOP + 4}">{top}</text>'
        f'<text class="value" x="{_LEFT - 6}" y="{_FLOOR + 4}">{floor}</text>'
    )


def _powers(most: int) -> list[int]:
    """1, 10, 100 … up to `most`."""
    return [10**power for power in range(len(str(most)))]


def _marks(last: int) -> list[int]:
    """Those, and `last`, of which the one before is left out if it is near."""
    return [*(power for power in _powers(last) if 2 * power <= last), last]


def _compact(number: int) -> str:
    """A number in few letters: 1,234,567 as ``1.2M``."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
