"""Numbers, durations, sizes, dates and foreign texts as people read them: on pages, in plots and on the terminal."""

import math
import re
from datetime import datetime

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_COMPACT = ("", "k", "M", "G", "T")
_CLOCK_UNITS = ((86400, 3600, "d"), (3600, 60, "h"), (60, 1, "min"), (1, 1, "s"))
# Control characters, bidirectional marks and lone surrogates, which change the text around them.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def number(value: float) -> str:
    """Format a count or a measure: ``1,234``, ``12.5`` or ``0.0312`` (three significant digits below a thousand)."""
    if not math.isfinite(value):
        return "–"
    if value == int(value) or abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def compact(value: float) -> str:
    """Format a number in few characters: 1,234,567 as ``1.23M``."""
    power = _thousands(value, len(_COMPACT))
    return f"{number(value / 1000**power)}{_COMPACT[power]}"


def size(value: float) -> str:
    """Format a number of bytes: ``1.2 MB``."""
    power = _thousands(value, len(_SIZES))
    return f"{number(round(value / 1000**power, 1))} {_SIZES[power]}"


def percent(share: float) -> str:
    """Format a share of one: ``12.5 %``; shares below 0.05 % with three decimals."""
    return f"{100 * share:.3f} %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def short_percent(share: float) -> str:
    """Format a share of one on an axis: ``50 %``."""
    return f"{number(100 * share)} %"


def duration(seconds: float) -> str:
    """Format a duration: ``120 ms``, ``1.2 s``, ``43 s``, ``4 min 05 s`` or ``27 h 03 min``."""
    if round(seconds, 3) < 1:
        return f"{number(round(seconds * 1000, 0 if seconds >= 0.01 else 1))} ms" if seconds else "0 s"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def clock(seconds: float) -> str:
    """Format the time since a start, as on an axis: ``30 s``, ``1:30 min``, ``2 h``."""
    if seconds < 1:
        return "0" if not seconds else duration(seconds)
    unit, smaller, name = next(each for each in _CLOCK_UNITS if seconds >= each[0])
    whole, rest = divmod(round(seconds), unit)
    return f"{whole}:{rest // smaller:02d} {name}" if rest else f"{whole} {name}"


def day(when: datetime) -> str:
    """Format a date: ``3 November 2026``."""
    return f"{when.day} {when:%B %Y}"


def moment(when: datetime) -> str:
    """Format a time in UTC: ``3 November 2026, 10:30:00 UTC``."""
    return f"{day(when)}, {when:%H:%M:%S} UTC"


def escape_controls(text: str) -> str:
    r"""Return foreign text with the characters that command a terminal, or reorder its text, as ``\u001b``."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def one_line(text: str, most: int = 300) -> str:
    """Return foreign text on one line of at most `most` characters, control characters as their code points."""
    line = escape_controls(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def _thousands(value: float, units: int) -> int:
    """Return the power of a thousand to divide `value` by, less than `units`; what rounds up to 1,000 counts."""
    power, value = 0, abs(value)
    while value >= 999.5 and power < units - 1 and math.isfinite(value):
        value, power = value / 1000, power + 1
    return power
