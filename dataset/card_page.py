"""The dataset card as a page, `card.html`."""

from collections.abc import Sequence
from typing import Final

import yaml

from memeloom.dataset.card_bins import cluster_bins, length_bins
from memeloom.dataset.card_pictures import Thumbnail
from memeloom.dataset.card_text import (
    FORMATS,
    LICENCE,
    PICTURES,
    about,
    copies_line,
    how_split,
    language_line,
    list_matches,
    near_pairs,
    outcomes,
    profanity_counts,
    profanity_line,
    share,
    sources_of,
    unsafe_pictures,
    visible,
    what_is_a_copy,
)
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.statistics import Copies, Tally, ranked
from memeloom.report.format import compact, number, one_line, size
from memeloom.report.pages import fragment, render
from memeloom.report.plot import Plot, Series

PAGE: Final = "card.html"
_BINS, _LABELS = 40, 8
_TOP_TEMPLATES = 12
_TOP_CHARACTERS = 32
_TOP_ENTRIES = 12
_PAIRS = 8
_LONGEST_NAME = 60
_POINTS = 240  # of the plot of all templates


def render_page(manifest: Manifest, tally: Tally, copies: Copies, pictures: Sequence[Thumbnail]) -> str:
    """Return the page as HTML. tally: counts of the records. copies: duplicates left out. pictures: examples."""
    sources, memes = sources_of(manifest), manifest.lineage.memes
    settings = manifest.lineage.settings
    by_number = list(ranked(tally.characters).items())
    captions = [template.captions for template in manifest.templates]
    return render(
        "dataset_card.html",
        title="Meme captions",
        manifest=manifest,
        about=about(manifest),
        tiles=_tiles(manifest),
        outcomes_head=("outcome", "memes", "share", *map(one_line, sources)),
        outcomes=[
            (one_line(name), count, [share(count, memes), *by_source], "good" if name == "kept" else "bad")
            for name, count, by_source in outcomes(manifest)
        ],
        samples=tally.samples,
        unsafe=unsafe_pictures(manifest),
        pictures=pictures,
        pictures_kind=PICTURES[manifest.images],
        lengths=_lengths(tally),
        characters=_characters(by_number),
        rare_characters=len(by_number[_TOP_CHARACTERS:]),
        rare_share=share(sum(n for _, n in by_number[_TOP_CHARACTERS:]), tally.characters.total()),
        separator=visible(manifest.separator),
        templates=[(one_line(t.name, _LONGEST_NAME), t.captions, (), "") for t in manifest.templates[:_TOP_TEMPLATES]],
        ranks=_ranks(captions),
        captions=captions,
        split=how_split(settings),
        splits=_splits(manifest),
        language=language_line(manifest),
        profanity=profanity_line(manifest),
        tiers=[(one_line(name), n, (), "bad") for name, n in profanity_counts(manifest)],
        found=list_matches(manifest, _TOP_ENTRIES),
        copy_rule=what_is_a_copy(settings),
        copies=copies_line(manifest),
        groups=[(each.name, each.number, (), "") for each in cluster_bins(manifest.clusters)],
        pairs=near_pairs(copies, _PAIRS),
        format=FORMATS[manifest.format],
        features=[(each.name, each.kind, each.values, each.about) for each in manifest.features],
        sources=[(one_line(name), n) for name, n in manifest.lineage.sources.items()],
        settings=yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=False, width=1000),
        licence=LICENCE,
    )


def adapt_page(page: str, old: Manifest, new: Manifest) -> str | None:
    """Return the page of an exported dataset: what it says about the files is replaced.

    old: of the dataset that was exported, whose page is `page`. None if the page is not as it was built.
    """
    for before, after in zip(_about_files(old), _about_files(new), strict=True):
        if before not in page:
            return None
        page = page.replace(before, after)
    return page


def _about_files(manifest: Manifest) -> list[str]:
    parts = {
        "tiles": (_tiles(manifest),),
        "splits": (_splits(manifest),),
        "format": (FORMATS[manifest.format], manifest.compression),
    }
    return [fragment("dataset_card_files.html", macro, *values) for macro, values in parts.items()]


def _tiles(manifest: Manifest) -> list[tuple[str, str, str]]:
    whole = size(manifest.bytes)
    return [
        ("Captions", number(manifest.records), f"{share(manifest.records, manifest.lineage.memes)} of the memes"),
        ("Templates", number(len(manifest.templates)), ""),
        *((split.capitalize(), number(n), share(n, manifest.records)) for split, n in manifest.splits.items()),
        ("Files", number(len(manifest.shards)), f"{whole}, {manifest.format}, {manifest.compression}"),
    ]


def _lengths(tally: Tally) -> Plot:
    bins = length_bins(tally.lengths, _BINS)
    every = -(-len(bins) // _LABELS) or 1
    return _columns(
        "Captions by number of characters",
        [(each.name, each.number) for each in bins],
        {float(at): number(each.low) for at, each in enumerate(bins) if at % every == 0},
    )


def _characters(by_number: Sequence[tuple[str, int]]) -> Plot:
    shown = [(visible(character), n) for character, n in by_number[:_TOP_CHARACTERS]]
    labels = {at + 0.5: character for at, (character, _) in enumerate(shown)}
    return _columns("Characters of the training captions by frequency", shown, labels)


def _columns(title: str, counts: Sequence[tuple[str, int]], labels: dict[float, str]) -> Plot:
    columns = Series(
        "", [(at + 1, n) for at, (_, n) in enumerate(counts)], [f"{name}: {number(n)}" for name, n in counts]
    )
    return Plot(
        title=title,
        summary=f"at most {number(max((n for _, n in counts), default=0))} in a column",
        kind="columns",
        series=[columns],
        x_ticks=labels,
        y_format=compact,
    )


def _ranks(captions: Sequence[int]) -> Plot:
    ranks = sorted({round(len(captions) ** (step / _POINTS)) for step in range(_POINTS + 1)}) if captions else []
    return Plot(
        title="Captions of a template by its rank",
        summary="both on logarithmic scales",
        kind="area",
        series=[Series("captions", [(rank, captions[rank - 1]) for rank in ranks])],
        x_label="rank of the template",
        log=True,
    )


def _splits(manifest: Manifest) -> list[tuple[str, int, str, int, str]]:
    files = {split: [shard for shard in manifest.shards if shard.split == split] for split in manifest.splits}
    return [
        (split, n, share(n, manifest.records), len(files[split]), size(sum(shard.bytes for shard in files[split])))
        for split, n in manifest.splits.items()
    ]
