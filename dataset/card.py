"""The dataset card: `README.md` beside the manifest, for people."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import yaml

from dataset.formats.contract import FormatName
from dataset.manifest import Manifest
from dataset.schema import DatasetRecord

_FORMATS: Mapping[FormatName, str] = MappingProxyType({
    "tfrecord": "Shards are TFRecord files of `tf.train.Example`",
    "parquet": "Shards are Parquet files, a column for each feature",
    "webdataset": "Shards are tar files as `webdataset` reads them: `.json` and picture of each record",
    "dummy": "Records were counted and not written",
})  # fmt: skip
_BAR = 40
_BIN = 10
_TOP_TEMPLATES = 20


def render_card(manifest: Manifest, lengths: Mapping[int, int], samples: Sequence[DatasetRecord]) -> str:
    """The card in Markdown.

    lengths: records by the number of characters of their boxes. samples: records to show.
    """
    dropped = sum(manifest.dropped.values())
    parts = [
        "# Meme captions",
        f"{manifest.records:,} captions on {len(manifest.templates):,} templates, "
        f"kept from {manifest.records + dropped:,} memes by `memeloom build-dataset`.",
        "## Splits\n\nBy hash of template and words: equal captions never stand on both sides, "
        "and adding data moves none.\n\n" + _table(("split", "captions"), manifest.splits.items()),
        "## Kept, by source\n\n" + _table(("source", "captions"), manifest.kept.items()),
        "## Dropped, by reason\n\n" + _table(("reason", "memes"), manifest.dropped.items()),
        "## Length in characters\n\n" + _histogram(lengths),
        "## Templates\n\n" + _templates(manifest),
        "## Samples\n\n" + "\n".join("    " + _line(f"{s.template_name}: {' / '.join(s.boxes)}") for s in samples),
        "## Features\n\n"
        + _table(("feature", "values", "what"), ((f.name, f.values, f.about) for f in manifest.features)),
        f"Texts hold {manifest.characters} characters, listed by frequency in `{manifest.vocabulary.name}`; "
        f"`{manifest.separator}` ends each box. The {manifest.words:,} most frequent words stand in "
        f"`{manifest.word_list.name}`. {_FORMATS[manifest.format]} (compression: {manifest.compression}).",
        "## Lineage\n\n" + _lineage(manifest),
        "## Licence and removal\n\nCaptions and pictures belong to the people who made them; the sites that they "
        "come from have terms of their own. Use this data for research, and ask before you pass it on.\n"
        "Who wants a meme removed gives its address or id: `memeloom purge` takes it out of the catalog for good, "
        "and the next build leaves it out of the dataset.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else _line(str(value)).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())


def _histogram(lengths: Mapping[int, int]) -> str:
    bins: dict[int, int] = {}
    for length, count in lengths.items():
        bins[length // _BIN] = bins.get(length // _BIN, 0) + count
    most = max(bins.values(), default=1)
    lines = []
    for at in range(min(bins, default=0), max(bins, default=0) + 1):
        count = bins.get(at, 0)
        bar = "#" * round(_BAR * count / most)
        lines.append(f"    {at * _BIN:4}-{at * _BIN + _BIN - 1:<4} {bar:{_BAR}} {count:,}")
    return "\n".join(lines)


def _templates(manifest: Manifest) -> str:
    shown = manifest.templates[:_TOP_TEMPLATES]
    table = _table(("template", "id", "captions", "boxes"), ((t.name, t.id, t.captions, t.boxes) for t in shown))
    rest = len(manifest.templates) - len(shown)
    return f"{table}\n\nand {rest:,} more." if rest else table


def _lineage(manifest: Manifest) -> str:
    lineage = manifest.lineage
    settings = yaml.safe_dump(dict(lineage.settings), sort_keys=False, allow_unicode=True).rstrip()
    indented = "\n".join(f"    {line}" for line in settings.splitlines())
    return f"Code at commit `{lineage.commit}`; a catalog of {lineage.memes:,} memes; settings `dataset`:\n\n{indented}"
