"""The page about one crawl: how it ended, its numbers, its plots. One file that needs nothing but itself.

Everything that came from outside, such as hosts, reasons and errors, is escaped; the page runs no script and its
policy lets it load nothing.
"""

from datetime import datetime
from html import escape

from memeloom.configs.page import ending_pill, page, table, tiles
from memeloom.configs.progress import HostNow
from memeloom.scrapers.report.plots import Stretches, is_error, plots
from memeloom.scrapers.report.story import Story
from memeloom.scrapers.report.style import STYLE
from memeloom.scrapers.report.words import duration, moment, number, seconds, size

_ROWS = 30
_KILLED = "killed: its series has no end"
_SET_ASIDE = "requests set aside"
_FIRST = ("pages", "memes", "new", "updated", "unchanged", "images", "bytes")


def draw(story: Story) -> str:
    """The page, as HTML."""
    sources = ", ".join(map(str, story.head.get("sources", ())))
    figures = plots(story)
    drawn = (
        f'<div class="plots">{"".join(figures)}</div>'
        if figures
        else "<p>It ended before there was anything to plot.</p>"
    )
    return page(
        f"Crawl of {sources or 'nothing'}",
        _ending(story),
        f"{_tiles(story)}<h2>Over time</h2>{drawn}\n{_tables(story)}\n{_hosts(story)}\n{_numbers(story)}",
        style=STYLE,
    )


def _ending(story: Story) -> str:
    how = str(story.end.get("how", "")) if story.end else _KILLED
    started = str(story.head.get("started_at", ""))
    try:
        started = f"{datetime.fromisoformat(started):%d %B %Y, %H:%M:%S} UTC"
    except ValueError:
        started = "at an unknown time"
    errors = (story.end or {}).get("errors", ())
    return (
        f'<p class="soft">Started {escape(started)}, ran for {duration(story.last.seconds)}</p>'
        f"{ending_pill(how)}"
        + "".join(f'<p class="error">{escape(str(error))}</p>' for error in errors)
    )  # fmt: skip


def _tiles(story: Story) -> str:
    last = story.last
    counts, vitals, whole = last.counts, last.vitals, max(last.seconds, 0.1)
    errors = sum(n for reason, n in last.reasons.items() if is_error(reason))
    facts = (
        ("Memes", number(counts.get("memes", 0)), f"{number(counts.get('new', 0))} new"),
        ("Memes a second", number(round(counts.get("memes", 0) / whole, 1)), ""),
        ("Pages", number(counts.get("pages", 0)), f"{number(round(counts.get('pages', 0) / whole, 1))} a second"),
        ("Images", number(counts.get("images", 0)), size(counts.get("bytes", 0))),
        ("Received", size(vitals.received_bytes), f"{size(vitals.received_bytes / whole)} a second"),
        ("Errors", number(errors), f"{number(counts.get('retries', 0))} retries"),
        ("Requests left", number(sum(vitals.queue.values())), f"{number(story.peaks.get('queue', 0))} at most"),
        ("Peak memory", size(story.peaks.get("rss_bytes", 0)), "of the crawling process"),
    )
    return tiles(facts)


def _tables(story: Story) -> str:
    counts, reasons = story.last.counts, story.last.reasons
    errors = {reason: n for reason, n in reasons.items() if is_error(reason)}
    left_out = {reason: n for reason, n in reasons.items() if not is_error(reason)}
    names = [*(name for name in _FIRST if name in counts), *(name for name in counts if name not in _FIRST)]
    counted = [
        (name, size(counts[name]) if name == "bytes" else number(counts[name])) for name in names if counts[name]
    ]
    aside = (
        "<p>Requests that were set aside can be listed with <code>memeloom crawl --failed</code> and tried again "
        "with <code>memeloom crawl --retry-failed</code>.</p>"
        if counts.get(_SET_ASIDE)
        else ""
    )
    return (
        '<div class="tables">'
        f"<section><h2>Done</h2>{table(('what', 'count'), counted)}{aside}</section>"
        f"<section><h2>Errors</h2>{table(('reason', 'count'), _ranked(errors))}</section>"
        f"<section><h2>Left out</h2>{table(('reason', 'count'), _ranked(left_out))}</section>"
        "</div>"
    )


def _hosts(story: Story) -> str:
    vitals = story.last.vitals
    states = ", ".join(f"{number(n)} {state}" for state, n in sorted(vitals.states.items(), key=lambda each: -each[1]))
    busiest = sorted(vitals.hosts, key=lambda host: (-host.answers, -host.failures))
    head = ("host", "state", "answers", "failures", "received", "latency")
    caption = f"The busiest and the unwell of {number(sum(vitals.states.values()))}: {states}" if states else ""
    return f'<h2>Hosts</h2><div class="wide">{table(head, map(_host_row, busiest), caption, numbers_from=2)}</div>'


def _host_row(host: HostNow) -> tuple[str, ...]:
    latency = "–" if host.latency_seconds is None else seconds(host.latency_seconds)
    return (
        host.name, host.state, number(host.answers), number(host.failures), size(host.received_bytes), latency
    )  # fmt: skip


def _numbers(story: Story) -> str:
    """What the plots show, as a table for who cannot see them."""
    if len(story.samples) < 2:
        return ""
    stretches = Stretches(story.samples, _ROWS)
    memes = stretches.amounts(lambda sample: sample.counts.get("memes", 0))
    pages = stretches.amounts(lambda sample: sample.counts.get("pages", 0))
    errors = stretches.amounts(lambda at: sum(n for reason, n in at.reasons.items() if is_error(reason)))
    received = stretches.amounts(lambda sample: sample.vitals.received_bytes)
    rows = (
        (f"until {moment(end)}", *(number(round(n[place])) for n in (memes, pages, errors)), size(received[place]))
        for place, end in enumerate(stretches.ends)
    )
    head = ("time", "memes", "pages", "errors", "received")
    return f'<details><summary>The plots in numbers</summary><div class="wide">{table(head, rows)}</div></details>'


def _ranked(counts: dict[str, int]) -> list[tuple[str, str]]:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rows = [(name, number(n)) for name, n in ranked[:_ROWS]]
    if len(ranked) > _ROWS:
        rows.append((f"{len(ranked) - _ROWS} more", number(sum(n for _, n in ranked[_ROWS:]))))
    return rows
