"""The dataset card in Markdown: `README.md`, which hubs show as the dataset's first page."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

from memeloom.dataset.card_bins import cluster_bins, length_bins
from memeloom.dataset.card_hub import UNKNOWN, hub_configs
from memeloom.dataset.card_text import (
    FORMATS,
    LICENCE,
    about,
    copies_line,
    how_split,
    language_line,
    list_matches,
    near_pairs,
    outcomes,
    profanity_line,
    share,
    sources_of,
    unsafe_pictures,
    visible,
    what_is_a_copy,
)
from memeloom.dataset.croissant import CROISSANT
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.statistics import Copies, Tally, ranked
from memeloom.report.format import one_line
from memeloom.report.markdown import code, escaped, foreign, table

README: Final = "README.md"
_BAR = 40
_BINS = 16
_TOP_TEMPLATES = 20
_TOP_ENTRIES = 8
_TOP_CHARACTERS = 30
_PAIRS = 6
# Size categories of dataset hubs, by exclusive upper bound.
_SIZES: Final = MappingProxyType({
    10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M", 10**8: "10M<n<100M",
    10**9: "100M<n<1B", 10**10: "1B<n<10B", 10**11: "10B<n<100B", 10**12: "100B<n<1T",
})  # fmt: skip


def render_card(manifest: Manifest, tally: Tally, copies: Copies) -> str:
    """Return the card in Markdown. tally: counts of the records. copies: duplicates left out."""
    settings = manifest.lineage.settings
    parts = [
        _front_matter(manifest),
        "# Meme captions",
        "\n".join(about(manifest)) + " `card.html` shows this page with plots.",
        f"## Splits\n\n{escaped(how_split(settings))}\n\n"
        + table(
            ("split", "captions", "share"),
            ((split, count, share(count, manifest.records)) for split, count in manifest.splits.items()),
        ),
        "## Kept and dropped\n\n" + _outcomes(manifest),
        f"## Language and profanity\n\n{escaped(language_line(manifest))}\n{escaped(profanity_line(manifest))}"
        + _found(manifest),
        f"## Copies\n\n{escaped(what_is_a_copy(settings))} {copies_line(manifest)}" + _copies(manifest, copies),
        "## Length in characters\n\n" + _histogram(tally.lengths),
        "## Characters of the training captions\n\n" + _characters(tally.characters),
        "## Templates\n\n" + _templates(manifest),
        "## Samples\n\n"
        + "\n".join(f"    {one_line(s.template_name)}: {one_line(' / '.join(s.boxes))}" for s in tally.samples),
        "## Features\n\n"
        + table(
            ("feature", "kind", "values", "description"),
            ((f.name, f.kind, f.values, f.about) for f in manifest.features),
        ),
        f"`{manifest.vocabulary.name}` lists the {manifest.characters:,} characters of the training captions by "
        f"frequency; {code(manifest.separator)} ends each box. `{manifest.word_list.name}` lists their "
        f"{manifest.words:,} most frequent words. {FORMATS[manifest.format]} (compression: {manifest.compression}). "
        f"`{CROISSANT}` describes files and features for loaders.",
        "## Lineage\n\n" + _lineage(manifest),
        "## Licence and removal\n\n" + "\n".join(LICENCE),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(manifest: Manifest) -> str:
    settings = manifest.lineage.settings
    facts: dict[str, Any] = {"pretty_name": "Meme captions"}
    if "language" in settings["steps"] and settings["languages"]:
        facts["language"] = list(settings["languages"])
    facts["license"] = UNKNOWN
    facts["size_categories"] = [next((name for end, name in _SIZES.items() if manifest.records < end), "n>1T")]
    if unsafe_pictures(manifest):
        facts["tags"] = ["not-for-all-audiences"]
    if configs := hub_configs(manifest.format, manifest):
        facts["configs"] = configs
    return f"---\n{yaml.safe_dump(facts, sort_keys=False)}---"


def _outcomes(manifest: Manifest) -> str:
    sources = sources_of(manifest)
    rows = (
        (name, count, *by_source, share(count, manifest.lineage.memes)) for name, count, by_source in outcomes(manifest)
    )
    return table(("reason", "memes", *map(foreign, sources), "share"), rows)


def _found(manifest: Manifest) -> str:
    entries = list_matches(manifest, _TOP_ENTRIES)
    if not entries:
        return ""
    rows = (
        (reason, ", ".join(f"{entry} {count:,}" for entry, count in found))
        for reason, found in entries.items()
        if found
    )
    return "\n\n" + table(("reason", "most frequent entries"), rows)


def _copies(manifest: Manifest, copies: Copies) -> str:
    parts = [""]
    if manifest.clusters:
        parts.append(table(("equal captions", "groups"), ((b.name, b.number) for b in cluster_bins(manifest.clusters))))
    if pairs := near_pairs(copies, _PAIRS):
        lines = (f"    {likeness:.2f}  {one_line(one)}\n          {one_line(other)}" for likeness, one, other in pairs)
        parts.append("Examples of near-duplicates, without punctuation, and their similarity:\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _histogram(lengths: Mapping[int, int]) -> str:
    bins = length_bins(lengths, _BINS)
    most = max((each.number for each in bins), default=1)
    wide = max((len(each.name) for each in bins), default=0)
    return "\n".join(
        f"    {each.name:>{wide}} {'#' * round(_BAR * each.number / most):{_BAR}} {each.number:,}" for each in bins
    )


def _characters(counts: Mapping[str, int]) -> str:
    characters = list(ranked(counts).items())
    whole = sum(counts.values())
    listed = " ".join(f"{visible(each)} {share(count, whole)};" for each, count in characters[:_TOP_CHARACTERS])
    return "    " + listed.rstrip(";")


def _templates(manifest: Manifest) -> str:
    top = manifest.templates[:_TOP_TEMPLATES]
    listed = table(("template", "id", "captions", "boxes"), ((t.name, t.id, t.captions, t.boxes) for t in top))
    rest = len(manifest.templates) - len(top)
    return f"{listed}\n\nand {rest:,} more." if rest else listed


def _lineage(manifest: Manifest) -> str:
    lineage = manifest.lineage
    sources = ", ".join(f"{foreign(name)} {count:,}" for name, count in lineage.sources.items())
    settings = yaml.safe_dump(dict(lineage.settings), sort_keys=False, allow_unicode=False, width=1000).rstrip()
    indented = "\n".join(f"    {line}" for line in settings.splitlines())
    return (
        f"Code at commit {code(lineage.commit)}; a catalog of {lineage.memes:,} memes ({sources}); "
        f"settings `dataset`:\n\n{indented}"
    )
