"""How well templates are found among memes that nobody named: `python -m bench.templates_discover --data DATA`.

Memes with real captions are drawn on templates of the reporting half, none of which the catalog knows; they go
through the real stage, on SQLite and a folder, with as many workers as there are processors. Once as their sites
have them, once cropped, framed, mirrored, marked, scaled and compressed.

A cluster is pure if all its memes are on one picture. Pictures that two sites have under two names count as one.
"""

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.rows import Row
from bench.templates_drawn import Half, drawn, load_blanks
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.runs import peak_rss_mb
from memeloom.configs.schema import Config
from memeloom.templates.stage import match_memes

_TEMPLATES = 60
_BATCH = 200


@dataclass(frozen=True)
class Score:
    """What became of memes whose true template is known.

    clusters: templates found; pure: those of which all memes are on one picture; covered: true ones among them.
    assigned: memes that learned a template.
    """

    clusters: int
    pure: int
    covered: int
    assigned: int


def discover(data: Path, count: int, half: Half = "report", ways: Sequence[bool] = (False, True)) -> Iterator[Row]:
    """Yield a row for memes as their sites have them, and one for harmed ones. ways: whether they are harmed."""
    for harmed in ways:
        with tempfile.TemporaryDirectory() as folder:
            config = load_config(
                overrides=[f"store.documents=sqlite:///{folder}/catalog.db", f"store.blobs={folder}/blobs",
                           f"runs={folder}/runs"],
                environment={},
            )  # fmt: skip
            truth = fill(config, data, half, count, harmed=harmed)
            done = match_memes(config, Silent())
            yield _row("harmed" if harmed else "as drawn", count, score(config, truth), done.seconds)


def fill(config: Config, data: Path, half: Half, count: int, *, harmed: bool) -> dict[str, str]:
    """Put `count` memes on 60 templates into a new catalog; the true template of each, by id."""
    groups = {blank.group: blank for blank in reversed(load_blanks(data)) if blank.half == half}
    blanks = [groups[name] for name in sorted(groups)][:_TEMPLATES]
    documents, blobs = open_documents(config.store), open_blobs(config.store)
    truth: dict[str, str] = {}
    memes: list[Meme] = []
    try:
        for number, meme in enumerate(drawn(data, half, count, seed=6, blanks=blanks, harmed=harmed)):
            image = inspect_image(meme.data, max_bytes=10**8, max_pixels=10**8)
            blobs.put(meme.data, image.key)
            # Ids are leased in order: this is a shuffle.
            name = f"drawn:{image.key[:12]}{number}"
            truth[name] = meme.blank.group
            memes.append(Meme(id=name, source="drawn", image=image))
            if len(memes) == _BATCH:
                documents.upsert(memes)
                memes = []
        documents.upsert(memes)
    finally:
        documents.close()
        blobs.close()
    return truth


def score(config: Config, truth: dict[str, str]) -> Score:
    """Compare what the catalog says with what is true."""
    documents = open_documents(config.store)
    try:
        clusters: dict[str, Counter[str]] = defaultdict(Counter)
        for meme in documents.scan():
            if meme.template:
                clusters[meme.template.id][truth[meme.id]] += 1
    finally:
        documents.close()
    return Score(
        clusters=len(clusters),
        pure=sum(len(members) == 1 for members in clusters.values()),
        covered=len({name for members in clusters.values() for name in members}),
        assigned=sum(members.total() for members in clusters.values()),
    )


def _row(who: str, count: int, found: Score, seconds: Mapping[str, float]) -> Row:
    pure, each = found.pure / max(found.clusters, 1), found.clusters / max(found.covered, 1)
    return Row(
        part="discovery",
        who=f"{count:,} memes, {who}",
        figures={
            "clusters": f"{found.clusters} on {found.covered} of {_TEMPLATES} templates",
            "pure": f"{pure:.3f}",
            "clusters a template": f"{each:.2f}",
            "memes assigned": f"{found.assigned / count:.3f}",
            "seconds": f"{seconds['memes']:.0f}, and {seconds['pictures']:.0f} for pictures of the templates",
            "peak MB of a process": f"{peak_rss_mb()}",
        },
        goal=">= 0.98 pure, <= 1.2 a template",
        met=pure >= 0.98 and each <= 1.2 and found.covered == _TEMPLATES,
    )


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds templates/ and real_memes/")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--way", choices=("drawn", "harmed"), action="append", help="only so")
    options = parser.parse_args()
    console = Console(width=150)
    table = Table(title=f"discovery, {options.half} half", box=SIMPLE)
    for column in ("part", "who", "measured", "goal"):
        table.add_column(column)
    ways = [way == "harmed" for way in options.way or ("drawn", "harmed")]
    for row in discover(options.data, options.count, options.half, ways):
        console.print(row.who, dict(row.figures))
        table.add_row(*row.cells)
    console.print(table)


if __name__ == "__main__":
    main()
