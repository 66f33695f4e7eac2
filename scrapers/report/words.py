"""Numbers as people read them, and round values for axes."""

import math

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def number(value: float) -> str:
    """``1,234``, ``12.5`` or ``0.031``: three significant digits below a thousand."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """``1.2 MB``."""
    power = min(int(math.log(max(value, 1), 1000) + 1e-9), len(_SIZES) - 1)
    return f"{number(round(value / 1000**power, 1))} {_SIZES[power]}"


def seconds(value: float) -> str:
    """``120 ms`` or ``1.2 s``."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{number(round(value, 2))} s"


def duration(value: float) -> str:
    """``0.8 s``, ``43 s``, ``4 min 05 s`` or ``27 h 03 min``."""
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def moment(value: float) -> str:
    """A time since the start, on an axis: ``30 s``, ``1:30 min``, ``2 h``."""
    if not value:
        return "0"
    unit, name = next(unit for unit in _UNITS if value >= unit[0] or unit[0] == 1)
    whole, rest = divmod(round(value), unit)
    if not rest:
        return f"{whole} {name}"
    smaller = {86400: 3600, 3600: 60, 60: 1}[unit]
    return f"{whole}:{rest // smaller:02d} {name}"


def ticks(largest: float, about: int = 4) -> list[float]:
    """Round values from 0 up to the first that is not below `largest`."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [step * place for place in range(math.ceil(largest / step - 1e-9) + 1)]


def time_step(whole: float, parts: int) -> float:
    """The shortest round length of which `parts` reach as far as `whole` seconds."""
    step = next((step for step in _TIME_STEPS if step * parts >= whole), None)
    return float(step or 86400 * math.ceil(whole / parts / 86400))


def time_ticks(whole: float, about: int = 6) -> list[float]:
    """Round times from 0 to `whole` seconds."""
    step = time_step(whole, about)
    return [step * place for place in range(int(whole / step) + 1)]
