"""The dataset card as a page, `card.html`: one file that needs nothing but itself and runs no script.

Captions, names and sources are strangers' words: each is escaped where it is put in, and shown by `card_text.shown`.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import yaml

from memeloom.configs.page import page, table, tiles
from memeloom.dataset.card_bins import cluster_bins, length_bins
from memeloom.dataset.card_captions import STYLE as CAPTIONS_STYLE
from memeloom.dataset.card_captions import caption_list, words
from memeloom.dataset.card_pictures import Thumbnail
from memeloom.dataset.card_plot import Column, bars, columns, ranks, stack
from memeloom.dataset.card_text import (
    FORMATS,
    LICENCE,
    PICTURES,
    about,
    copies_line,
    fates,
    found_on_lists,
    how_split,
    language_line,
    near_pairs,
    profanity_counts,
    profanity_line,
    ranked,
    share,
    shown,
    sources_of,
    unsafe_pictures,
    visible,
    what_is_a_copy,
)
from memeloom.dataset.counts import Copies
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import DatasetRecord
from memeloom.dataset.tally import Tally

PAGE: Final = "card.html"
_BINS, _LABELS = 40, 8
_TOP_TEMPLATES = 12
_TOP_CHARACTERS = 32
_TOP_ENTRIES = 12
_PAIRS = 8
_LONGEST_NAME = 60
_STYLE = f"""{CAPTIONS_STYLE}
.wide td {{ overflow-wrap: break-word; }} .features th {{ white-space: nowrap; }}
mark {{ background: none; color: inherit; text-decoration: underline 2px var(--warn); text-underline-offset: .2em; }}
.pictures {{ display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(46%, 10rem), 1fr)); }}
figure {{ margin: 0; min-width: 0; }} figure img {{ display: block; width: 100%; height: 10rem; object-fit: contain;
  background: var(--card); border-radius: .4rem; }}
pre {{ font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--card); overflow-x: auto;
  border-radius: .5rem; padding: .7rem .9rem; margin: .5rem 0; }}
"""


def render_page(manifest: Manifest, tally: Tally, copies: Copies, pictures: Sequence[Thumbnail]) -> str:
    """The page, as HTML. tally: of the records. copies: what was left out as such. pictures: some to show."""
    what, record = about(manifest)
    sections = {
        "Kept and dropped": _fates(manifest),
        "Some captions": _samples(tally.samples) + _pictures(manifest, pictures),
        "Texts": _texts(manifest, tally),
        "Templates": _templates(manifest),
        "Splits": _splits(manifest),
        "Language and profanity": _language(manifest) + _found(manifest),
        "Copies": _copies(manifest, copies),
        "Files": _files(manifest),
        "Lineage": _lineage(manifest),
        "Licence and removal": "".join(f"<p>{_marked(line)}</p>" for line in LICENCE),
    }
    return page(
        "Meme captions",
        f'<p class="lead">{_marked(what)}<br>{_marked(record)}</p>',
        _tiles(manifest) + "".join(f"<section><h2>{title}</h2>{html}</section>" for title, html in sections.items()),
        style=_STYLE,
    )


def _tiles(manifest: Manifest) -> str:
    size = sum(shard.bytes for shard in manifest.shards)
    kept = share(manifest.records, manifest.lineage.memes)
    return tiles(
        (
            ("Captions", f"{manifest.records:,}", f"{kept} of the memes"),
            ("Templates", f"{len(manifest.templates):,}", ""),
            *((split.capitalize(), f"{n:,}", share(n, manifest.records)) for split, n in manifest.splits.items()),
            ("Files", f"{len(manifest.shards):,}", f"{size / 1e6:,.1f} MB, {manifest.format}, {manifest.compression}"),
        )
    )


def _fates(manifest: Manifest) -> str:
    sources, memes = sources_of(manifest), manifest.lineage.memes
    rows = (
        (shown(name), count, [share(count, memes), *(f"{n:,}" for n in by_source)], "good" if name == "kept" else "bad")
        for name, count, by_source in fates(manifest)
    )
    return bars(("outcome", "memes", "share", *map(shown, sources)), rows, whole=memes)


def _samples(samples: Iterable[DatasetRecord]) -> str:
    listed = caption_list(
        (record.boxes, f"{words(record.template_name)} · {words(record.id)}") for record in samples
    )  # fmt: skip
    return listed or '<p class="soft">There are none for training.</p>'


def _origin(record: DatasetRecord) -> str:
    return f"{words(record.template_name, _LONGEST_NAME)} · {words(record.id, _LONGEST_NAME)}"


def _pictures(manifest: Manifest, pictures: Sequence[Thumbnail]) -> str:
    if unsafe_pictures(manifest):
        return '<p class="soft">No pictures are shown: those that are not safe for work were not left out.</p>'
    figures = "".join(
        f'<figure><img src="{address}" alt="{escape(shown(" / ".join(record.boxes)))}" loading="lazy">'
        f"<figcaption>{_origin(record)}</figcaption></figure>"
        for record, address in pictures
    )
    return (
        f'<h3>Pictures: {escape(PICTURES[manifest.images])}</h3><div class="pictures">{figures}</div>'
        if figures
        else ""
    )


def _texts(manifest: Manifest, tally: Tally) -> str:
    bins = length_bins(tally.lengths, _BINS)
    each = -(-len(bins) // _LABELS)
    lengths = [Column(f"{b.low:,}" if at % each == 0 else "", b.name, b.number) for at, b in enumerate(bins)]
    by_number = ranked(tally.characters)
    characters = [Column(visible(c), visible(c), n) for c, n in by_number[:_TOP_CHARACTERS]]
    rest, whole = sum(n for _, n in by_number[_TOP_CHARACTERS:]), tally.characters.total()
    others = f" The {len(by_number) - len(characters):,} that are not shown are {share(rest, whole)}." if rest else ""
    return (
        f'<div class="two"><div><h3>Length: captions by characters of all boxes</h3>'
        f"{columns(lengths, 'Captions by their number of characters')}</div>"
        f"<div><h3>Characters by how often they stand in the texts</h3>"
        f"{columns(characters, 'The most frequent characters')}</div></div>"
        f'<p class="soft"><code>{escape(visible(manifest.separator))}</code> ends each box.'
        f"{others} All {manifest.characters:,} stand in "
        f"<code>{escape(manifest.vocabulary.name)}</code>, the {manifest.words:,} most frequent words in "
        f"<code>{escape(manifest.word_list.name)}</code>.</p>"
    )


def _templates(manifest: Manifest) -> str:
    top, counts = manifest.templates[:_TOP_TEMPLATES], [template.captions for template in manifest.templates]
    more = f"The {len(top)} with the most captions of {len(counts):,}" if len(counts) > len(top) else "All"
    rows = ((shown(t.name, _LONGEST_NAME), t.captions, (), "") for t in top)
    return (
        f'<div class="two"><div><h3>{more}</h3>{bars(("template", "captions"), rows)}</div>'
        "<div><h3>All by rank: captions of a template</h3>"
        f"{ranks(counts, 'Captions of a template by its rank, on logarithmic scales')}"
        f'<p class="soft">From {max(counts, default=0):,} down to {min(counts, default=0):,}; half of the templates '
        f"have {_median(counts):,} or more.</p></div></div>"
    )


def _splits(manifest: Manifest) -> str:
    rows = (
        (split, f"{n:,}", share(n, manifest.records), f"{len(shards):,}", f"{sum(s.bytes for s in shards) / 1e6:,.1f}")
        for split, n in manifest.splits.items()
        for shards in [[shard for shard in manifest.shards if shard.split == split]]
    )
    bar = stack([(str(split), n) for split, n in manifest.splits.items()])
    return (
        f"<p>{escape(how_split(manifest.lineage.settings))}</p>{bar}"
        f"{table(('split', 'captions', 'share', 'files', 'MB'), rows)}"
    )


def _language(manifest: Manifest) -> str:
    tiers = profanity_counts(manifest)
    return (
        f"<p>{escape(language_line(manifest))}</p><p>{escape(profanity_line(manifest))}</p>"
        + (bars(("dropped for", "memes"), ((shown(name), n, (), "bad") for name, n in tiers)) if tiers else "")
    )  # fmt: skip


def _found(manifest: Manifest) -> str:
    """What of the lists was found."""
    lists = "".join(
        f"<div>{table(('entry', 'memes'), ((entry, f'{n:,}') for entry, n in found), shown(reason))}</div>"
        for reason, found in found_on_lists(manifest, _TOP_ENTRIES).items()
    )
    return (
        f'<details><summary>What of the lists was found most</summary><div class="tables">{lists}</div></details>'
        if lists
        else ""
    )


def _copies(manifest: Manifest, copies: Copies) -> str:
    parts = [f"<p>{escape(what_is_a_copy(manifest.lineage.settings))} {escape(copies_line(manifest))}</p>"]
    if manifest.clusters:
        rows = ((each.name, each.number, (), "") for each in cluster_bins(manifest.clusters))
        parts.append(f"<h3>Groups of equal captions by size</h3>{bars(('captions in a group', 'groups'), rows)}")
    if pairs := near_pairs(copies, _PAIRS):
        listed = "".join(_pair(*pair) for pair in pairs)
        parts.append(f'<h3>Some that were nearly equal, without punctuation</h3><ul class="samples">{listed}</ul>')
    return "".join(parts)


def _pair(likeness: float, one: str, other: str) -> str:
    words = set(one.split()), set(other.split())
    return (
        f"<li><span>{_differing(one, words[1])}</span><span>{_differing(other, words[0])}</span>"
        f"<small>alike by {likeness:.2f}</small></li>"
    )


def _differing(text: str, others: set[str]) -> str:
    """A text in which the words that are not among `others` are marked."""
    words = (escape(word) if word in others else f"<mark>{escape(word)}</mark>" for word in shown(text).split())
    return f"<bdi>{' '.join(words)}</bdi>"


def _files(manifest: Manifest) -> str:
    features = table(
        ("feature", "values", "what"), ((f.name, f.values, f.about) for f in manifest.features), numbers_from=9
    )
    return (
        f"<p>{_marked(FORMATS[manifest.format])}, compression: {escape(manifest.compression)}; sha256 of each in "
        f'<code>manifest.json</code>.</p><div class="wide features">{features}</div>'
    )


def _lineage(manifest: Manifest) -> str:
    lineage = manifest.lineage
    settings = yaml.safe_dump(dict(lineage.settings), sort_keys=False, allow_unicode=False, width=1000)
    sources = ((shown(name), f"{n:,}") for name, n in lineage.sources.items())
    return (
        f"<p>Code at commit <code>{escape(shown(lineage.commit))}</code>; a catalog of {lineage.memes:,} memes.</p>"
        f"{table(('source', 'memes'), sources)}"
        f"<details><summary>Settings that built it</summary><pre>{escape(settings)}</pre></details>"
    )


def _marked(text: str) -> str:
    """Our own words, in which backticks stand around code."""
    parts = text.split("`")
    return "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))


def _median(counts: Sequence[int]) -> int:
    return counts[(len(counts) - 1) // 2] if counts else 0
