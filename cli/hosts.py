"""How a stage that talks to hosts is doing at the moment: a few rows on a terminal, a few fields in JSON."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from memeloom.cli.terminal import amount, number
from memeloom.configs.progress import HostNow, Now

ROWS = 8
_STYLES = {"ok": "green", "trying": "yellow", "resting": "yellow", "given up": "red"}


def host_table(now: Now) -> RenderableType:
    """Rates in one line, the queue in another, and up to `ROWS` hosts, the unwell first."""
    per_second = (
        amount(name, round(rate, 1)) + ("" if name == "bytes" else f" {name}") for name, rate in now.rates.items()
    )
    lines = [Text("  " + "   ".join(f"{each}/s" for each in per_second), no_wrap=True, overflow="ellipsis")]
    if now.queue:
        queue = " · ".join(f"{source} {number(n)}" for source, n in now.queue.items())
        lines.append(Text(f"  queue  {queue}", no_wrap=True, overflow="ellipsis"))
    if not now.hosts:
        return Group(*lines)
    table = Table.grid(padding=(0, 2))
    table.add_column(max_width=36)  # the one that gives way on a narrow terminal
    table.add_column(no_wrap=True, min_width=9)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True)
    shown = now.hosts[:ROWS]
    for host in shown:
        table.add_row(*_row(host))
    rest = _rest(now.states, shown)
    return Group(*lines, table, *([Text(f"  {rest}", style="dim")] if rest else []))


def host_fields(now: Now) -> dict[str, Any]:
    """The same facts as fields of a line."""
    return {
        "rates": dict(now.rates),
        "queue": dict(now.queue),
        "host_states": dict(now.states),
        "hosts": {
            host.name: {"state": host.state}
            | ({} if host.latency_seconds is None else {"latency_ms": round(host.latency_seconds * 1000, 1)})
            | ({"rests_seconds": host.rests_seconds} if host.rests_seconds else {})
            for host in now.hosts[:ROWS]
        },
    }


def _row(host: HostNow) -> tuple[Text, ...]:
    state = f"{host.state} {host.rests_seconds:.0f} s" if host.rests_seconds else host.state
    latency = "–" if host.latency_seconds is None else f"{host.latency_seconds * 1000:,.0f} ms"
    failures = f"{number(host.failures)} failed" if host.failures else ""
    return (
        Text(f"  {host.name}", no_wrap=True, overflow="ellipsis"),
        Text(state, style=_STYLES.get(host.state, "")),
        Text(latency),
        Text(f"{number(host.answers)} answers"),
        Text(failures, style="yellow"),
    )


def _rest(states: Mapping[str, int], shown: tuple[HostNow, ...]) -> str:
    left = {state: n - sum(host.state == state for host in shown) for state, n in states.items()}
    parts = [f"{number(n)} {state}" for state, n in left.items() if n > 0]
    return f"and {', '.join(parts)}" if parts else ""
