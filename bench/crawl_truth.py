"""Crawl the miniature internet and compare every meme with the ground truth.

python -m bench.crawl_truth --memes 2000 --data ../shared/data
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config
from memeloom.demo.internet import Internet
from memeloom.demo.truth import ServedMeme
from memeloom.scrapers.crawl import crawl


def main() -> None:
    """Serve, crawl twice, compare, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of real captions and templates; default: the demo's own")
    parser.add_argument("--memes", type=int, default=2000, help="memes on Imgflip in all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Internet(data=options.data, memes=options.memes) as internet:
        config = _config(internet, Path(folder))
        began = time.monotonic()
        first = crawl(config, Silent())
        seconds = time.monotonic() - began
        again = crawl(config, Silent())
        found, served = _compare(internet, config)
    table = Table("memes", "count", title=f"Crawl of {served} memes ({options.data or 'own corpus'})")
    rows = {
        "served": served,
        **{name: found[name] for name in ("stored", "lost", "doubled", "foreign")},
        **{f"wrong {name}": found[name] for name in ("boxes", "template", "bytes", "title", "score", "views")},
        "changed by a second crawl": int(again.counts["new"] + again.counts["updated"]),
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


def _compare(internet: Internet, config: Config) -> tuple[Counter[str], int]:
    documents = open_documents(config.store)
    served = {meme.id: meme for meme in internet.served(hashes=True) if meme.source == "imgflip"}
    tally: Counter[str] = Counter()
    addresses: Counter[str | None] = Counter()
    for meme in documents.scan():
        tally["stored"] += 1
        addresses[meme.image_url] += 1
        if meme.id in served:
            tally.update(_wrong(meme, served[meme.id]))
        else:
            tally["foreign"] += 1
    tally["lost"] = sum(documents.get(meme_id) is None for meme_id in served)
    tally["doubled"] = sum(n - 1 for n in addresses.values())
    documents.close()
    return tally, len(served)


def _wrong(meme: Meme, served: ServedMeme) -> list[str]:
    pairs = {
        "boxes": (meme.boxes, served.boxes),
        "template": (meme.template and meme.template.id, served.template_id),
        "bytes": (meme.image and meme.image.key, served.sha256),
        "title": (meme.title, served.title),
        "score": (meme.score, served.score),
        "views": (meme.views, served.views),
    }
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]


if __name__ == "__main__":
    main()
