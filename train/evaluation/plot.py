"""Shares over temperature as inline SVG, a line a model, in the colours of the page."""

from collections.abc import Mapping, Sequence
from html import escape

# Units of the SVG, which takes the width that it is given.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 240, 64, 12, 16, 50
_FLOOR = _HEIGHT - _BOTTOM
_COLOURS = ("var(--link)", "var(--warn)", "var(--good)", "var(--bad)")
_DASHES = ("", "7 4", "2 3", "10 3 2 3")

STYLE = """
.chart circle { stroke: none; } .chart path.many { stroke-width: 2.2; stroke-linejoin: round; }
.chart path.real { stroke: var(--soft); stroke-dasharray: 3 4; stroke-width: 1.6; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .5rem 0 1rem; } .legend svg { width: 2rem;
  height: .8rem; display: inline-block; vertical-align: middle; margin-right: .4rem; }
"""


def shares_over(lines: Sequence[Mapping[float, float]], real: float | None, said: str) -> str:
    """Shares, 0 to 1, over temperatures. lines: one a model. real: that of real captions. said: for who cannot see."""
    temperatures = sorted({at for line in lines for at in line})
    low, high = temperatures[0], temperatures[-1]

    def x(temperature: float) -> float:
        wide = _WIDTH - _LEFT - _RIGHT - 20
        return _LEFT + 10 + wide * ((temperature - low) / (high - low) if high > low else 0.5)

    def y(share: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * share

    drawn = [
        f'<path d="M{_LEFT} {y(share):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text class="value" x="{_LEFT - 6}" y="{y(share) + 4:.1f}">{100 * share:.0f} %</text>'
        for share in (0.0, 0.5, 1.0)
    ]
    drawn += [f'<text x="{x(at):.1f}" y="{_FLOOR + 20}">{at:g}</text>' for at in temperatures]
    drawn.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}">temperature</text>')
    if real is not None:
        drawn.append(f'<path class="real" d="M{_LEFT} {y(real):.1f}H{_WIDTH - _RIGHT}"/>')
    for number, line in enumerate(lines):
        points = [(x(at), y(share), f"{at:g}: {100 * share:.1f} %") for at, share in sorted(line.items())]
        joined = "L".join(f"{across:.1f} {up:.1f}" for across, up, _ in points)
        drawn.append(f'<path class="many" style="{_look(number)}" d="M{joined}"/>')
        drawn += [
            f'<circle style="fill:{_COLOURS[number % len(_COLOURS)]}" cx="{across:.1f}" cy="{up:.1f}" r="3.6">'
            f"<title>{name}</title></circle>"
            for across, up, name in points
        ]
    return (
        f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">'
        f"{''.join(drawn)}</svg></div>"
    )


def legend(names: Sequence[str]) -> str:
    """What the lines are, in their order, as HTML. names: HTML; the last is of the line of real captions."""
    uses_pictures = [f'class="many" style="{_look(number)}"' for number in range(len(names) - 1)] + ['class="real"']
    keys = "".join(
        f'<span><svg viewBox="0 0 32 12" aria-hidden="true"><path {look} d="M0 6H32"/></svg>{name}</span>'
        for look, name in zip(uses_pictures, names, strict=True)
    )
    return f'<div class="legend chart">{keys}</div>'


def _look(number: int) -> str:
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return f"stroke:{_COLOURS[number % len(_COLOURS)]}" + (f";stroke-dasharray:{dash}" if dash else "")
