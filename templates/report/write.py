"""Write the page of templates from the stores."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import islice
from pathlib import Path

from memeloom.catalog.documents import DocumentStore, Where
from memeloom.catalog.records import Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import write_text
from memeloom.configs.schema import Config
from memeloom.report.pages import ending
from memeloom.templates.report.gather import Gatherer
from memeloom.templates.report.page import Census, Run, draw, draw_closely, make_card

# Templates on one page, and templates offered to merge into.
MOST, SUGGESTED = 60, 400


@contextmanager
def reporting(config: Config, outcomes: Mapping[str, int]) -> Iterator[Path]:
    """Write the page of found templates when the block ends, even by an error, unless `outcomes` is empty.

    Yields the page's path. After an error of the block, errors of the page are suppressed.
    outcomes: of the run's memes, by name; failures as ``failed/REASON``.
    """
    began, clock = datetime.now(UTC), time.monotonic()
    path = Path(config.runs) / f"templates-{began:%Y%m%dT%H%M%S.%f}.html"

    def write(ended: str) -> None:
        if outcomes:
            write_page(config, path, run=Run(began, time.monotonic() - clock, ended, outcomes))

    try:
        yield path
    except BaseException as error:
        with suppress(MemeloomError, OSError):
            write(ending(error))
        raise
    write("finished")


def write_page(config: Config, path: Path, ids: Sequence[str] | None = None, *, run: Run | None = None) -> None:
    """Write the page of found templates, or in detail of those in `ids`, to `path`, atomically.

    Shows at most `MOST` templates: those with the most memes, or the first of `ids`.

    Raises:
        StoreError: a store refused or failed.
        MemeloomError: a template is not in the catalog, or the page cannot be written.
    """
    with closing(open_documents(config.store)) as documents, closing(open_blobs(config.store)) as blobs:
        gatherer = Gatherer(documents, blobs, config.crawl.max_image_pixels)
        memes = documents.counts().templates
        if ids is None:
            html = _found(documents, gatherer, memes, run)
        else:
            html = _asked(documents, gatherer, memes, ids[:MOST])
        write_text(path, html)


def _found(documents: DocumentStore, gatherer: Gatherer, memes: Mapping[str, int], run: Run | None) -> str:
    survey = _Survey(memes)
    shown = nsmallest(MOST, survey.found(documents.templates()), key=lambda each: (-memes.get(each.id, 0), each.id))
    census = Census(
        counts=survey.counts,
        unmatched=sum(1 for _ in documents.sketches(unmatched=True)),
        unknown=documents.count(Where(image=True, template_known=False)),
    )
    cards = [make_card(gatherer.gather(template, memes.get(template.id, 0))) for template in shown]
    names = {**survey.popular, **{template.id: template.name for template in shown}}
    return draw(census, cards, names, run)


def _asked(documents: DocumentStore, gatherer: Gatherer, memes: Mapping[str, int], ids: Sequence[str]) -> str:
    survey, asked = _Survey(memes), dict.fromkeys(ids)
    found = {template.id: template for template in survey.all(documents.templates()) if template.id in asked}
    missing = [template_id for template_id in asked if template_id not in found]
    if missing:
        raise MemeloomError(f"no template {missing[0]!r} in the catalog; memeloom templates list names all")
    templates = [found[template_id] for template_id in asked]
    cards = [make_card(gatherer.gather(each, memes.get(each.id, 0), closely=True), closely=True) for each in templates]
    return draw_closely(cards, survey.popular)


class _Survey:
    """Counts templates by kind while they are read. popular: names of the usable ones with the most memes, by id."""

    def __init__(self, memes: Mapping[str, int]) -> None:
        self.counts: Counter[str] = Counter()
        self.popular: dict[str, str] = {}
        self._most = set(islice(memes, SUGGESTED))

    def all(self, templates: Iterable[Template]) -> Iterator[Template]:
        for template in templates:
            kind = "merged" if template.merged_into is not None else template.state
            self.counts[kind] += 1
            self.counts["named"] += kind == "known" and template.source == "found"
            if template.id in self._most and template.usable:
                self.popular[template.id] = template.name
            yield template

    def found(self, templates: Iterable[Template]) -> Iterator[Template]:
        return (template for template in self.all(templates) if template.usable and template.state == "found")
