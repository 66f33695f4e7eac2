"""The frame and the look that all pages share: one file each, that needs nothing but itself.

Light or dark as the reader's system is, one column on a phone. What a page shows came from strangers: the pieces
here escape what they are given, but for what is said to be HTML, and only addresses of the web become links.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlsplit

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #5b6470; --rule: #d9dde3;
  --bad: #b3261e; --good: #1a7f4b; --warn: #8a5a00; --link: #2563c9; --tile: 11rem; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed; --soft: #a2abb7; --rule: #363c45;
    --bad: #ff8a80; --good: #63d297; --warn: #f2b84b; --link: #6aa5ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; } .soft, caption { color: var(--soft); } a { color: var(--link); overflow-wrap: anywhere; }
.how { display: inline-block; margin: .7rem 0 0; padding: .1rem .6rem; border-radius: 1rem; font-weight: 600;
  border: 1px solid; }
.how.good { color: var(--good); } .how.bad { color: var(--bad); } .how.warn { color: var(--warn); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(46%, var(--tile)), 1fr)); gap: .7rem;
  margin: 1.4rem 0 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
dd small { display: block; font-size: .8rem; color: var(--soft); min-height: 1.2em; }
svg { display: block; width: 100%; height: auto; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-size: .85rem; padding-bottom: .3rem; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
  overflow-wrap: anywhere; }
th { font-weight: 500; } thead th { color: var(--soft); font-size: .85rem; }
.n { text-align: right; white-space: nowrap; padding-right: .2rem; } thead .n { padding-left: 1rem; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--card); padding: .05em .3em;
  border-radius: .2em; }
"""


def page(title: str, header: str, body: str, *, style: str = "", script: str = "") -> str:
    """A page. `title` is escaped here, the rest is HTML.

    style: rules beside those of `STYLE`. script: the one script that may run, if any; its hash stands in the policy.
    """
    policy = f"{_POLICY}; script-src '{_digest(script)}'" if script else _POLICY
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n<body>"
        f"<header><h1>{escape(title)}</h1>{header}</header>\n<main>{body}</main>"
        f"{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def ending_pill(how: str) -> str:
    """How a run ended, as a pill: ``finished``, ``interrupted``, or what stopped it."""
    look = "good" if how == "finished" else "warn" if how.startswith(("stopped", "interrupted")) else "bad"
    return f'<p class="how {look}">{escape(how)}</p>'


def tiles(facts: Iterable[tuple[str, str, str]]) -> str:
    """Name, value and a note of each fact, large."""
    each = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in facts
    )
    return f"<dl>{''.join(each)}</dl>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", *, numbers_from: int = 1) -> str:
    """A table whose first column names the row; columns from `numbers_from` on are numbers."""
    body = "".join(f"<tr>{_cells(row, numbers_from)}</tr>" for row in rows)
    if not body:
        return '<p class="soft">none</p>'
    names = "".join(
        f'<th scope="col"{_right(place, numbers_from)}>{escape(name)}</th>' for place, name in enumerate(head)
    )
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def link(address: str | None, html: str) -> str:
    """`html` as a link to `address`, if that is one of the web: it is what a stranger says it is."""
    if address is None or not _is_web(address):
        return html
    return f'<a href="{escape(address)}" rel="noopener noreferrer nofollow" target="_blank">{html}</a>'


def _cells(row: Sequence[str], numbers_from: int) -> str:
    first = f'<th scope="row">{escape(row[0])}</th>'
    rest = (f"<td{_right(place, numbers_from)}>{escape(cell)}</td>" for place, cell in enumerate(row[1:], start=1))
    return first + "".join(rest)


def _right(place: int, numbers_from: int) -> str:
    return ' class="n"' if place >= numbers_from else ""


def _is_web(address: str) -> bool:
    try:
        return urlsplit(address).scheme in ("http", "https")
    except ValueError:
        return False


def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
