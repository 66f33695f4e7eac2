"""Write the files that describe a dataset; the manifest last."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from memeloom.catalog.documents import Counts
from memeloom.catalog.records import Template
from memeloom.catalog.resolved import ResolvedTemplates
from memeloom.configs.load import masked
from memeloom.configs.outputs import write_text
from memeloom.configs.runs import commit
from memeloom.configs.schema import Dataset
from memeloom.dataset.card import README, render_card
from memeloom.dataset.card_page import PAGE, render_page
from memeloom.dataset.card_pictures import sample_pictures
from memeloom.dataset.croissant import write_croissant
from memeloom.dataset.manifest import (
    DatasetTemplate,
    DroppedFile,
    Feature,
    File,
    Lineage,
    Manifest,
    PictureFile,
    Shard,
    file_sha256,
)
from memeloom.dataset.output import Output
from memeloom.dataset.schema import EMBEDDED, FEATURES
from memeloom.dataset.statistics import Copies, Drops, Tally, TemplateTally, ranked
from memeloom.dataset.vocabulary import Vocabulary, write_words


def describe_dataset(
    output: Output,
    settings: Dataset,
    catalog: Counts,
    templates: ResolvedTemplates,
    tally: Tally,
    words: Sequence[tuple[str, int]],
    drops: Drops,
    copies: Copies,
    shards: Sequence[Shard],
    pictures: Sequence[PictureFile],
    dropped_files: Sequence[DroppedFile],
) -> Manifest:
    """Write `vocabulary.json`, `words.json`, `README.md`, `card.html` and `manifest.json`.

    The card is not in the manifest: people may edit it, and no reader needs it. catalog, templates: from the catalog.
    tally, words: of the records in `shards`. pictures: files of the pictures that these refer to.
    drops, copies, dropped_files: what was left out.
    """
    folder = output.folder
    vocabulary = Vocabulary.of(tally.characters)
    manifest = Manifest(
        records=sum(tally.splits.values()),
        splits=tally.splits,
        kept=ranked(tally.sources),
        dropped=drops.totals(),
        by_source=_by_source(drops.by_reason),
        details={reason: ranked(entries) for reason, entries in sorted(drops.details.items())},
        clusters=dict(sorted(copies.clusters.items())),
        separator=settings.separator,
        format=settings.format,
        compression=settings.compression,
        images=settings.images,
        features=tuple(
            Feature(name=name, kind=kind, values=values, about=about)
            for name, kind, values, about in FEATURES
            if name != "image" or settings.images in EMBEDDED
        ),
        vocabulary=_file(vocabulary.write(folder)),
        characters=len(vocabulary.characters),
        word_list=_file(write_words(folder, words)),
        words=len(words),
        shards=tuple(shards),
        picture_files=tuple(pictures),
        dropped_files=tuple(dropped_files),
        templates=_templates(tally.templates, templates),
        lineage=Lineage(
            # Without the parent path, so that the manifest does not depend on where the dataset was built.
            settings=masked(settings) | {"output": Path(settings.output).name},
            commit=commit(),
            memes=catalog.memes,
            sources=ranked(catalog.sources),
        ),
    )
    write_text(folder / README, render_card(manifest, tally, copies))
    write_text(folder / PAGE, render_page(manifest, tally, copies, sample_pictures(output, manifest)))
    write_croissant(folder, manifest)
    manifest.write(folder)
    return manifest


def _by_source(dropped: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reason, counts in dropped.items():
        for source, count in counts.items():
            sources[source][reason] = count
    return {source: ranked(counts) for source, counts in sorted(sources.items())}


def _file(path: Path) -> File:
    return File(name=path.name, bytes=path.stat().st_size, sha256=file_sha256(path))


def _templates(used: Mapping[str, TemplateTally], known: ResolvedTemplates) -> tuple[DatasetTemplate, ...]:
    by_number = sorted(used.items(), key=lambda item: (-item[1].captions, item[0]))
    return tuple(_template(template, tally, known.get(template)) for template, tally in by_number)


def _template(template: str, tally: TemplateTally, known: Template | None) -> DatasetTemplate:
    return DatasetTemplate(
        id=template,
        name=tally.name,
        slug=tally.slug,
        captions=tally.captions,
        boxes=min(tally.boxes, key=lambda number: (-tally.boxes[number], number)),
        box_count=known.box_count if known else None,
        geometry=known.boxes if known else (),
        image_key=known.picture.key if known and known.picture else None,
    )
