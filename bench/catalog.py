"""The catalog as it grows: `python -m bench.catalog [--memes 10000000] [--store mongodb]`.

Memes with random ids are upserted in batches of 20,000, ready made: neither making them nor parsing them is measured,
all that the store does is, until the batch is durable. 2,000 templates share nine tenths of the memes, which have a
caption only. Every twentieth has a picture but neither template nor caption, so that OCR and the templates stage want
it; every twentieth has an address where no picture is. After each step these stages are done with all of them, which
is not measured either. Then each stage looks for work again, and `stats` is asked.
"""

import argparse
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.records import Image, Meme, TemplateRef
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.report.plot import Plot, Series, picture
from tests.services.mongod import Mongod

_BATCH: Final = 20_000
_TEMPLATES: Final = 2_000
_LEASES: Final = 5_000
_RATE, _STATS, _IDLE, _MEMORY_MB = 20_000, 0.5, 1.0, 300
_STAGES: Final = {
    "templates": Where(image=True, template_known=False),
    "ocr": Where(image=True, caption=False, read=False),
}


class Step(NamedTuple):
    """The figures after a number of memes.

    Attributes:
        rate, thrift: memes of this step a second, and a second of this process's processor time.
        slowest: seconds of the slowest batch.
        idle: seconds of stages without work.
        load: of the machine; others disturb the rate.
    """

    memes: int
    rate: float
    thrift: float
    slowest: float
    stats: float
    idle: dict[str, float]
    memory_mb: float
    file_mb: float
    load: float


def main() -> None:
    """Fill a catalog step by step; print a table and draw a plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memes", type=int, default=1_000_000, help="number of memes in the end")
    parser.add_argument("--step", type=int, default=1_000_000, help="number of memes between two measurements")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite", help="the document store")
    parser.add_argument("--folder", type=Path, help="where SQLite's file is made, on the disk to measure")
    parser.add_argument("--plot", type=Path, help="draw the figures in this SVG file")
    options = parser.parse_args()
    console, done = Console(width=150), list[Step]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        url, files = f"sqlite:///{folder}/catalog.db", folder
        if options.store == "mongodb":
            server = Mongod(cache_gb=1.0)
            stack.callback(server.stop)
            url, files = server.url("bench"), server.folder
        store = load_config(environment={}).store.model_copy(update={"documents": url})
        documents = stack.enter_context(closing(open_documents(store)))
        for step in measured(documents, options.memes, options.step, lambda: _megabytes(files)):
            done.append(step)
            console.print(f"{step.memes:,} memes: {step.rate:,.0f}/s, load {step.load:.1f}")
    console.print(table(options.store, done))
    if options.plot:
        options.plot.write_text(picture(plots(done)))
    if not all(_is_met(step) for step in done):
        console.print("[bold]a goal was missed[/bold]")


def measured(documents: DocumentStore, memes: int, step: int, size: Callable[[], float]) -> Iterator[Step]:
    """Fill the catalog and yield the figures after each step."""
    ready = made()
    for count in range(step, memes + 1, step):
        seconds = processor = slowest = 0.0
        for _ in range(step // _BATCH):
            batch = list(islice(ready, _BATCH))
            before, start = time.process_time(), time.monotonic()
            documents.upsert(batch)
            taken = time.monotonic() - start
            seconds, slowest = seconds + taken, max(slowest, taken)
            processor += time.process_time() - before
            failed = {meme.id: "gone" for meme in batch if meme.image_url}
            documents.record_failures("fetch", failed)
        _finish_work(documents)
        idle = {stage: _seconds(lambda s=stage: _look(documents, s)) for stage in (*_STAGES, "fetch")}  # type: ignore[misc]
        stats = _seconds(documents.counts)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        load = os.getloadavg()[0]
        yield Step(count, step / seconds, step / processor, slowest, stats, idle, memory, size(), load)


def made() -> Iterator[Meme]:
    """Yield memes with random ids."""
    chance, now = random.Random(0), datetime(2026, 11, 20, tzinfo=UTC)
    names = [TemplateRef(id=str(n), slug=f"some-template-{n}", name=f"Some Template {n}") for n in range(_TEMPLATES)]
    words = ("when", "you", "finally", "finish", "the", "thing", "that", "nobody", "asked", "for", "and", "it", "works")
    shown = Image(key="a" * 64, width=3, height=2, format="png", bytes=9, phash64="0" * 16, phash256="f" * 64)
    while True:
        number = chance.getrandbits(60)
        meme_id = f"imgflip:{number:015x}"
        if number % 20 == 0:
            own = shown.model_copy(update={"key": f"{number:064x}"})
            yield Meme(id=meme_id, source="imgflip", image=own, fetched_at=now)
        elif number % 20 == 1:
            yield Meme(id=meme_id, source="imgflip", image_url=f"https://example.org/{number}.png", fetched_at=now)
        else:
            boxes = tuple(" ".join(chance.choices(words, k=6)) for _ in range(2))
            template = names[chance.randrange(_TEMPLATES)]
            yield Meme(id=meme_id, source="imgflip", template=template, boxes=boxes, score=number % 99, fetched_at=now)


def table(store: str, steps: list[Step]) -> Table:
    """Return the figures as a table."""
    shown = Table(title=f"the catalog on {store}; seconds of stages without work", box=SIMPLE)
    first, last = (
        ("memes", "captions/s", "captions per second of processor time", "slowest batch s", "stats s"),
        ("RSS MB", "disk MB", "load"),
    )
    for column in (*first, *steps[0].idle, *last):
        shown.add_column(column, justify="right")
    for step in steps:
        idle = [f"{seconds:.3f}" for seconds in step.idle.values()]
        shown.add_row(
            f"{step.memes:,}", f"{step.rate:,.0f}", f"{step.thrift:,.0f}", f"{step.slowest:.2f}", f"{step.stats:.3f}",
            *idle, f"{step.memory_mb:,.0f}", f"{step.file_mb:,.0f}", f"{step.load:.1f}",
        )  # fmt: skip
    return shown


def plots(steps: list[Step]) -> list[Plot]:
    """Return the plots of the documentation."""

    def line(name: str, figure: Callable[[Step], float]) -> Series:
        return Series(name, [(step.memes / 1e6, figure(step)) for step in steps])

    common = "million memes in the catalog"
    idle = [line(stage, lambda step, s=stage: 1000 * step.idle[s]) for stage in steps[0].idle]  # type: ignore[misc]
    return [
        Plot(title="captions stored a second", x_label=common, levels={"goal": _RATE}, dots=True,
             series=[line("measured", lambda step: step.rate), line("of processor time", lambda step: step.thrift)]),
        Plot(title="milliseconds of stats and of stages without work", x_label=common, dots=True,
             series=[line("stats", lambda step: 1000 * step.stats), *idle]),
    ]  # fmt: skip


def _finish_work(documents: DocumentStore) -> None:
    for stage, where in _STAGES.items():
        documents.enqueue(stage, where)
        while leases := documents.lease(stage, _LEASES, 600, 3):
            documents.ack(leases)


def _look(documents: DocumentStore, stage: str) -> None:
    """Look for work as the stage does that finds none."""
    if stage == "fetch":
        found = len(list(documents.without_picture()))
    else:
        found = documents.enqueue(stage, _STAGES[stage]) + len(documents.lease(stage, 1, 600, 3))
    if found:
        raise SystemExit(f"{stage} found {found} memes; it should be done")


def _seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def _is_met(step: Step) -> bool:
    """True if the goals are reached."""
    idle = max(step.idle.values())
    return step.rate >= _RATE and step.stats <= _STATS and idle <= _IDLE and step.memory_mb <= _MEMORY_MB


if __name__ == "__main__":
    main()
