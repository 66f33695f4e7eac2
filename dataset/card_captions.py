"""Captions and other words of strangers as HTML, and the look of the pages that show them."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from memeloom.dataset.card_plot import STYLE as PLOT_STYLE
from memeloom.dataset.card_text import shown

_MOST_BOXES = 8
STYLE: Final = f"""{PLOT_STYLE}
.lead {{ font-size: 1.05rem; margin-top: .5rem; }} h3 {{ font-size: 1rem; font-weight: 600; margin: 1.2rem 0 .5rem; }}
.wide {{ overflow-x: auto; }}
.two {{ display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }} .two > * {{ min-width: 0; }}
ul.samples {{ list-style: none; margin: 0; padding: 0; display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }}
ul.samples li {{ background: var(--card); border-radius: .5rem; padding: .6rem .8rem; min-width: 0;
  overflow-wrap: anywhere; }}
ul.samples span {{ display: block; }} ul.samples small, figcaption {{ color: var(--soft); font-size: .82rem;
  overflow-wrap: anywhere; }}
details {{ margin: .6rem 0; }} details .tables {{ margin-top: .5rem; }}
summary {{ cursor: pointer; color: var(--link); }}
"""


def caption_list(captions: Iterable[tuple[Sequence[str], str]]) -> str:
    """Captions as cards beside each other. Each: its boxes, and what stands below as HTML; nothing of none."""
    cards = "".join(f"<li>{_lines(boxes)}<small>{below}</small></li>" for boxes, below in captions)
    return f'<ul class="samples">{cards}</ul>' if cards else ""


def words(text: str, most: int = 300) -> str:
    """A text of a stranger, at most so many characters of it."""
    return f"<bdi>{escape(shown(text, most))}</bdi>"


def _lines(boxes: Sequence[str]) -> str:
    more = f'<span class="soft">and {len(boxes) - _MOST_BOXES:,} more</span>' if len(boxes) > _MOST_BOXES else ""
    return "".join(map(_line, boxes[:_MOST_BOXES])) + more


def _line(box: str) -> str:
    return f"<span>{words(box)}</span>" if box.strip() else '<span class="soft">(left blank)</span>'
