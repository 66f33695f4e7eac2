"""Crawl the miniature internet and compare every meme with the ground truth.

python -m bench.crawl_truth --memes 2000 --data ../shared/data
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl
from tests.scrapers.served import compare


def main() -> None:
    """Serve, crawl twice, compare, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of real captions and templates; default: the demo's own")
    parser.add_argument("--memes", type=int, default=2000, help="memes on Imgflip in all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Internet(data=options.data, memes=options.memes) as internet:
        config = _config(internet, Path(folder))
        began = time.monotonic()
        first = crawl(config)
        seconds = time.monotonic() - began
        again = crawl(config)
        found = compare(config, internet)
    table = Table("memes", "count", title=f"Crawl of {found.served} memes ({options.data or 'own corpus'})")
    rows = {
        "served": found.served,
        "stored": found.stored,
        **{name: len(getattr(found, name)) for name in ("lost", "doubled", "foreign")},
        "wrong": dict(found.wrong) or 0,
        "wrong or missing bytes": len(found.bad_blobs),
        "changed by a second crawl": again.counts["new"] + again.counts["updated"],
        "seconds": f"{seconds:.1f}",
        "memes/s": f"{first.counts['memes'] / seconds:.1f}",
        "pages/s": f"{first.counts['pages'] / seconds:.1f}",
        **{f"reason: {reason}": n for reason, n in first.reasons.items()},
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console().print(table)


def _config(internet: Internet, folder: Path) -> Config:
    return load_config(
        overrides=[
            *internet.settings,
            "crawl.sources=[imgflip]",
            "crawl.imgflip.templates=100000",
            "crawl.imgflip.pages_per_template=100000",
            "crawl.concurrency_per_host=8",
            f"runs={folder}/runs",
            f"store.documents=sqlite:///{folder}/catalog.db",
            f"store.blobs={folder}/blobs",
        ],
        environment={},
    )


if __name__ == "__main__":
    main()
