"""The report of a reading, as Markdown and as rows for the terminal."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from memeloom.report.markdown import code, escaped, table
from memeloom.train.evaluation.likelihood import Interval
from memeloom.train.evaluation.reading.results import Reading
from memeloom.train.evaluation.reading.sheet import QUESTIONS

_NOTE: Final = (
    "Shares of captions, with the 95 % interval of Wilson; differences, in points, with that of Newcombe. A caption "
    "that several readers rated counts once, with the share of the readers who said yes."
)
_AGREEMENT: Final = (
    "Krippendorff's alpha of the captions that several readers rated: 1 is full agreement, 0 that of chance."
)
_RANKING: Final = (
    "Of a caption that most readers would post and one that they would not, how often the first has the higher score "
    "of the ranker (AUC; 95 % interval of Hanley and McNeil): 0.5 is chance."
)


class Rows(NamedTuple):
    """A table of the report."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str


def tables(reading: Reading) -> list[Rows]:
    """Return the tables that have rows."""
    labels = [question.label.lower() for question in QUESTIONS]
    shares = [
        (each.name, f"{each.rated} of {each.captions}", *(_percent(each.shares.get(q.name)) for q in QUESTIONS))
        for each in reading.authors
    ]
    behind = [
        (each.name, *(_points(each.behind[question.name]) for question in QUESTIONS))
        for each in reading.authors
        if each.behind
    ]
    agreement = [(str(reading.rated_twice), *(_alpha(reading.agreement[question.name]) for question in QUESTIONS))]
    ranking = [(name, f"{each.value:.2f} ({each.low:.2f}–{each.high:.2f})") for name, each in reading.ranking.items()]
    found = [
        Rows("Captions", ("captions of", "rated", *labels), shares, _NOTE),
        Rows("Difference to people", ("captions of", *labels), behind, ""),
        Rows("Agreement of readers", ("captions", *labels), agreement if reading.rated_twice else [], _AGREEMENT),
        Rows("Agreement with the ranker", ("captions of", "would post"), ranking, _RANKING),
    ]
    return [each for each in found if each.rows]


def render_text(reading: Reading) -> str:
    """Return the report as Markdown."""
    raters = ", ".join(f"{name} {count:,}" for name, count in reading.raters.items())
    parts = [
        "# Captions, read blind",
        escaped(f"{reading.rated:,} of {reading.captions:,} captions rated (captions by rater: {raters}); ")
        + f"sheet {code(reading.sheet)}, dataset {code(str(reading.about.get('digest')))}, "
        f"seed {escaped(str(reading.about.get('seed')))}.",
    ]
    for each in tables(reading):
        parts += [f"## {each.title}", table(each.head, each.rows), *([escaped(each.note)] if each.note else [])]
    if reading.skipped:
        parts += ["## Skipped lines", table(("reason", "lines"), reading.skipped.items())]
    return "\n\n".join(parts) + "\n"


def _percent(share: Interval | None) -> str:
    return "" if share is None else f"{100 * share.value:.0f} % ({100 * share.low:.0f}–{100 * share.high:.0f})"


def _points(found: Interval) -> str:
    return f"{100 * found.value:+.0f} ({100 * found.low:+.0f} to {100 * found.high:+.0f})"


def _alpha(value: float | None) -> str:
    return "all equal" if value is None else f"{value:.2f}"
