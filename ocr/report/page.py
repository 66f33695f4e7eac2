"""The page about one run: its numbers, how sure the readings are, and the worst of them first.

Everything that came from outside, such as texts, ids and addresses, is escaped, and only addresses of the web become
links; the page runs no script and loads nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.records import Meme
from memeloom.configs.page import ending_pill, link, page, table, tiles
from memeloom.ocr.report.overlay import band, draw_over
from memeloom.ocr.report.plot import plot_confidences
from memeloom.ocr.report.readings import box_list, box_marks, legend, percent
from memeloom.ocr.report.seen import Seen
from memeloom.ocr.report.style import STYLE

# Units across a small picture, and how it is embedded: at most some ten kilobytes each.
_ACROSS, _SIDE, _QUALITY = 190, 300, 60
# Bounds of the table of confidences.
_BOUNDS = (0, 50, 60, 70, 80, 85, 90, 95, 98)


def draw(
    seen: Seen,
    cards: Mapping[str, str],
    *,
    began: datetime,
    seconds: float,
    ended: str,
) -> str:
    """The page, as HTML.

    cards: `card` of the memes to show, by id; those that are not there any more are left out.
    seconds, ended: how long the run took, and how it ended (``finished``, or what stopped it).
    """
    header = f'<p class="soft">Started {began:%d %B %Y, %H:%M:%S} UTC</p>{ending_pill(ended)}'
    reasons = {outcome.partition("/")[2]: n for outcome, n in seen.outcomes.most_common() if "/" in outcome}
    return page(
        f"Reading of {seen.outcomes.total():,} memes",
        header,
        f"{_tiles(seen, seconds)}<h2>How sure the readings are</h2>{plot_confidences(seen.kept, seen.dropped)}"
        '<div class="tables">'
        f"<section><h2>Kept, by confidence</h2>{table(('confidence', 'readings'), _rows(_ranges(seen.kept)))}</section>"
        f"<section><h2>Not kept</h2>{table(('reason', 'memes'), _rows(reasons))}</section></div>"
        f"{_worst(seen, cards)}{_others('Dropped', seen.sample('dropped'), seen, cards)}"
        f"{_others('Failed', seen.sample('failed'), seen, cards)}",
        style=STYLE,
    )


def card(meme: Meme, picture: NDArray[np.uint8] | None) -> str:
    """One meme: its picture (None if there is none to show) with its text boxes over it, their texts, whence it is."""
    boxes = meme.ocr.boxes if meme.ocr else ()
    shown = (
        '<div class="none">no picture</div>'
        if picture is None
        else draw_over(picture, box_marks(boxes), _ACROSS, _SIDE, _QUALITY)
    )
    source = link(meme.page_url, f"<bdi>{escape(meme.id)}</bdi>")
    return (
        f'<article class="card"><figure>{shown}</figure><div>{_reading(meme)}<p class="id">{source}</p></div></article>'
    )


def _reading(meme: Meme) -> str:
    if meme.ocr is None:
        return '<p class="soft">not read</p>'
    sure = f'<span class="{band(meme.ocr.confidence)}">{percent(meme.ocr.confidence)}</span>'
    return f'<div class="confidence">{sure} <small>{escape(meme.ocr.engine)}</small></div>{box_list(meme.ocr.boxes)}'


def _tiles(seen: Seen, seconds: float) -> str:
    groups = dict.fromkeys(("kept", "dropped", "failed"), 0)
    for outcome, n in seen.outcomes.items():
        groups[outcome.partition("/")[0]] += n
    memes = seen.outcomes.total()
    rate = memes / max(seconds, 0.1)
    return tiles(
        (
            ("Memes", f"{memes:,}", f"in {seconds:,.0f} s"),
            *((name.capitalize(), f"{n:,}", f"{n / max(memes, 1):.1%}") for name, n in groups.items()),
            ("Memes a second", f"{rate:,.1f}", ""),
            ("Confidence", percent(seen.median) if seen.median is not None else "–", "median of the kept"),
        )
    )


def _ranges(kept: Sequence[int]) -> dict[str, int]:
    """Readings by confidence, the lowest first."""
    ends = (*_BOUNDS[1:], 101)
    ranges = {
        f"{low} to {high}" if high <= 100 else f"{low} and more": sum(kept[2 * low : 2 * high])
        for low, high in zip(_BOUNDS, ends, strict=True)
    }
    return {name: n for name, n in ranges.items() if n}


def _rows(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    return ((name, f"{n:,}") for name, n in counts.items())


def _worst(seen: Seen, cards: Mapping[str, str]) -> str:
    shown = [cards[meme_id] for meme_id in seen.worst() if meme_id in cards]
    if not shown:
        return ""
    return (
        "<h2>The worst readings that were kept</h2>"
        '<p class="soft">The least sure first. <code>memeloom ocr --inspect ID</code> shows one of them closely.</p>'
        f'{legend(words=False)}<div class="cards">{"".join(shown)}</div>'
    )


def _others(title: str, sample: Mapping[str, Sequence[str]], seen: Seen, cards: Mapping[str, str]) -> str:
    parts = []
    for reason, ids in sample.items():
        shown = [cards[meme_id] for meme_id in ids if meme_id in cards]
        n = seen.outcomes[f"{title.lower()}/{reason}"]
        some = f"{len(shown)} of {n:,}" if len(shown) < n else f"{n:,}"
        parts.append(f'<h3>{escape(reason)}: {some}</h3><div class="cards">{"".join(shown)}</div>')
    return f"<h2>{title}</h2>{''.join(parts)}" if parts else ""
