"""The page: how many templates there are of each kind, a card for each that is shown, and the board of decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from memeloom.configs.page import ending_pill, page, table, tiles
from memeloom.templates.report.decide import SCRIPT, board
from memeloom.templates.report.style import STYLE

_FAILED = "failed/"


@dataclass(frozen=True, slots=True)
class Census:
    """The catalog's templates.

    counts: ``known``, ``found``, ``rejected`` and ``merged`` ones; ``named``: those of the known that were found here.
    strangers: memes that wait for others that show their picture.
    unknown: memes with a picture whose template nobody knows.
    """

    counts: Mapping[str, int]
    strangers: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did. outcomes: by name, reasons of failures as ``failed/REASON``. ended: as `ending_pill` takes it."""

    began: datetime
    seconds: float
    ended: str
    outcomes: Mapping[str, int]


def draw(census: Census, cards: Sequence[str], names: Mapping[str, str], run: Run | None = None) -> str:
    """The page of found templates, as HTML.

    cards: `draw_card` of those to show, in order. names: of templates that others may be merged into, by id.
    """
    found = census.counts.get("found", 0)
    title = "1 template found" if found == 1 else f"{found:,} templates found"
    left_out = (
        f" {len(cards):,} of {found:,} are shown, those with the most memes; "
        "<code>memeloom templates list --state found</code> names all."
        if len(cards) < found
        else ""
    )
    asked = (
        '<h2>Is each of them one picture?</h2><p class="soft">Give it a name, merge it into the template that it is, '
        "or reject it. The commands gather at the foot, to be copied; the page itself changes nothing. The memes that "
        f"look least like it come first.{left_out}</p>{_plain()}"
        if cards
        else '<p class="soft">Nothing is to be decided.</p>'
    )
    shown = f'<div class="clusters">{"".join(cards)}</div>' if cards else ""
    return page(
        title,
        _header(run) if run else "",
        f"{_tiles(census)}{asked}{shown}{_outcomes(run) if run else ''}{board(names)}",
        style=STYLE,
        script=SCRIPT,
    )


def draw_these(titles: Sequence[str], cards: Sequence[str], names: Mapping[str, str]) -> str:
    """The page that looks closely at some templates, as HTML. titles: their ids; cards: `draw_closely` of each."""
    title = f"Template {titles[0]}" if len(titles) == 1 else f"{len(titles):,} templates"
    body = f'{_plain()}<div class="clusters one">{"".join(cards)}</div>{board(names)}'
    return page(title, "", body, style=STYLE, script=SCRIPT)


def _header(run: Run) -> str:
    began = f"Started {run.began:%d %B %Y, %H:%M:%S} UTC, ran for {run.seconds:,.0f} s"
    return f'<p class="soft">{began}</p>{ending_pill(run.ended)}'


def _tiles(census: Census) -> str:
    counts, named = census.counts, census.counts.get("named", 0)
    return tiles(
        (
            ("Known", f"{counts.get('known', 0):,}", f"{named:,} of them found here" if named else ""),
            ("Found", f"{counts.get('found', 0):,}", "to be decided about"),
            ("Rejected", f"{counts.get('rejected', 0):,}", "no templates"),
            ("Merged", f"{counts.get('merged', 0):,}", "into another"),
            ("Unknown", f"{census.strangers:,}", "memes without a template"),
            ("Without a template", f"{census.unknown:,}", "memes with a picture"),
        )
    )


def _plain() -> str:
    lines = ("name ID 'Its name'", "merge ID INTO", "reject ID")
    commands = ", ".join(f"<code>{escape(f'memeloom templates {line}')}</code>" for line in lines)
    return f"<noscript><p>Decide with {commands}.</p></noscript>"


def _outcomes(run: Run) -> str:
    told = {name: f"{n:,}" for name, n in sorted(run.outcomes.items(), key=lambda each: (-each[1], each[0])) if n}
    done = [(name, n) for name, n in told.items() if not name.startswith(_FAILED)]
    failed = [(name.removeprefix(_FAILED), n) for name, n in told.items() if name.startswith(_FAILED)]
    return (
        f'<div class="tables"><section><h2>This run</h2>{table(("outcome", "memes"), done)}</section>'
        f"<section><h2>Failed</h2>{table(('reason', 'memes'), failed)}</section></div>"
    )
