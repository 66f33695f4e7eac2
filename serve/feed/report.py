"""`memeloom feedback report`: the comparison of the models on the feed, as a page."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from memeloom.catalog.documents import DocumentStore, batched
from memeloom.catalog.feed import FeedMeme, Sums
from memeloom.catalog.stores import open_documents
from memeloom.configs.outputs import write_text
from memeloom.configs.schema import Config
from memeloom.report.format import number, percent
from memeloom.report.pages import render
from memeloom.report.plot import Plot, Series
from memeloom.serve.feed.comparison import CONFIDENCE, FEWEST, Arm, Compared, Comparison, Difference, compare

_BATCH = 500
HEAD = ("model", "like rate", "votes", "likes", "memes", "shown")
# An interval that is wider says nothing, and would flatten the others in the plot.
_WIDEST = 0.5


def report_feedback(config: Config, page: Path) -> Compared:
    """Compare the arms of the feed, and write the page.

    Raises:
        StoreError: the catalog cannot be read.
        MemeloomError: the page cannot be written.
    """
    with closing(open_documents(config.store, read_only=True)) as documents:
        found = compare(_rows(documents))
    write_text(page, render_feedback(found))
    return found


def _rows(documents: DocumentStore) -> Iterator[tuple[FeedMeme, Sums]]:
    for memes in batched(documents.scan_feed(), _BATCH):
        sums = documents.sums([meme.id for meme in memes])
        yield from ((meme, sums.get(meme.id, Sums())) for meme in memes)


def render_feedback(found: Compared) -> str:
    """Return the page as HTML."""
    votes = sum(arm.votes for arm in found.arms)
    return render(
        "feedback.html",
        title="Models compared on the feed",
        tiles=[
            ("models", number(len(found.arms)), ""),
            ("memes", number(sum(arm.memes for arm in found.arms)), "mixed on the feed"),
            ("votes", number(votes), percent(sum(arm.likes for arm in found.arms) / votes) + " likes" if votes else ""),
        ],
        head=HEAD,
        rows=[row_of(arm) for arm in found.arms],
        comparisons=[(each, verdict(each), _plot(each)) for each in found.comparisons],
        confidence=f"{100 * CONFIDENCE:.0f} %",
        fewest=FEWEST,
        widest=f"{100 * _WIDEST:.0f}",
    )


def row_of(arm: Arm) -> Sequence[str]:
    """Return an arm's row of the table whose head is `HEAD`."""
    rate = "–" if arm.rate is None else percent(arm.rate)
    return (arm.name, rate, *map(number, (arm.votes, arm.likes, arm.memes, arm.shown)))


def verdict(comparison: Comparison) -> str:
    """Return what is known of two arms, in one sentence."""
    found, first, second = comparison.difference, comparison.first.name, comparison.second.name
    if found is None:
        return f"{second} and {first}: too few votes, at least {FEWEST} each on templates of both"
    interval = f"{_points(found.value)} points ({_points(found.low)} to {_points(found.high)})"
    if not found.decided:
        return f"{second} against {first}: undecided, {interval}"
    return f"{second} is liked {'more' if found.value > 0 else 'less'} than {first}: {interval}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _plot(comparison: Comparison) -> Plot:
    running = [(votes, known) for votes, known in comparison.running if known.high - known.low < _WIDEST]

    def line(name: str, at: int) -> Series:
        return Series(name, [(float(votes), known[at]) for votes, known in running])

    columns = {name: at for at, name in enumerate(Difference._fields)}
    return Plot(
        title=f"{comparison.second.name} less {comparison.first.name}: difference of like rates, in points",
        series=[line("difference", columns["value"]), line("from", columns["low"]), line("to", columns["high"])],
        summary=verdict(comparison),
        x_label="votes, on memes in the order in which they were written",
        y_min=None,
        y_format=lambda share: number(round(100 * share)),
        levels={"no difference": 0.0},
    )
