"""The tables of `memeloom dataset inspect` and `diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memeloom.cli.reading import printable

if TYPE_CHECKING:  # loaded by the command only when it looks
    from collections.abc import Sequence

    from memeloom.dataset.diff import Changed, Difference, RecordChanges
    from memeloom.dataset.inspect import Look

_MOST_ROWS = 15
_MOST_ENTRIES = 6


def show_dataset(look: Look) -> None:
    """Print what is in a dataset."""
    from rich.table import Table

    from memeloom.cli.summary import amount, console, counted
    from memeloom.dataset.card_text import copies_line, found_on_lists, sources_of, split_line

    manifest, out = look.manifest, console()
    size = sum(shard.bytes for shard in manifest.shards)
    facts = {
        "records": amount("records", manifest.records),
        "format": f"{manifest.format}, {manifest.compression}",
        "files": f"{len(manifest.shards):,}, {amount('bytes', size)}",
        "pictures": manifest.images,
        "vocabulary": f"{manifest.characters:,} characters, {manifest.words:,} words",
        "separator": manifest.separator,
        "split": split_line(manifest.lineage.settings),
        "copies": copies_line(manifest).rstrip("."),
        "catalog": f"{manifest.lineage.memes:,} memes",
        "commit": manifest.lineage.commit,
    }
    table = Table(title=printable(str(look.folder)), title_justify="left", title_style="bold", show_header=False)
    for name, fact in facts.items():
        table.add_row(name, printable(fact))
    out.print(table)
    splits = {str(split): count for split, count in manifest.splits.items()}
    for title, counts in (("by split", splits), ("by source", manifest.kept), ("dropped", manifest.dropped)):
        if title == "dropped" and sources_of(manifest):
            _show_drops(look)
        elif counts:
            out.print(counted(title, ("reason" if title == "dropped" else title[3:], "count"), counts))
    for reason, entries in found_on_lists(manifest, _MOST_ENTRIES).items():
        told = ", ".join(f"{entry} {count:,}" for entry, count in entries)
        out.print(printable(f"{reason}: {told}"), style="dim", soft_wrap=True)
    templates = {
        printable(f"{template.name} ({template.id})").plain: template.captions for template in manifest.templates
    }
    if templates:
        out.print(counted(f"by template ({len(templates):,})", ("template", "captions"), templates))
    _show_samples(look)


def _show_drops(look: Look) -> None:
    """Dropped memes by reason and source."""
    from rich.table import Table

    from memeloom.cli.summary import console
    from memeloom.dataset.card_text import fates, sources_of

    table = Table(title="dropped", title_justify="left", title_style="bold")
    table.add_column("reason")
    for column in ("count", *sources_of(look.manifest)):
        table.add_column(printable(column), justify="right")
    for reason, count, by_source in fates(look.manifest)[1:]:
        table.add_row(printable(reason), *(f"{number:,}" for number in (count, *by_source)))
    console().print(table)


def _show_samples(look: Look) -> None:
    from rich.table import Table

    from memeloom.cli.summary import amount, console

    table = Table(title="some records", title_justify="left", title_style="bold")
    for column in ("split", "id", "template", "boxes"):
        table.add_column(column, overflow="fold")
    for split, records in look.samples.items():
        for record in records:
            picture = "" if record.image is None else f" [picture: {amount('bytes', len(record.image))}]"
            boxes = printable(" / ".join(record.boxes) + picture)
            table.add_row(split, printable(record.id), printable(record.template_name), boxes)
    if table.row_count:
        console().print(table)


def show_difference(difference: Difference) -> None:
    """Print what changed between two datasets."""
    from memeloom.cli.summary import console

    out = console()
    sections = {
        "how it was made": difference.made,
        "counts": difference.counts,
        "records by source": difference.sources,
        "memes dropped, by reason": difference.dropped,
        "memes dropped, by source": sorted(difference.dropped_by_source, key=_growth, reverse=True),
        "found on lists": [_masked(each) for each in sorted(difference.found, key=_growth, reverse=True)],
        "captions by template": sorted(difference.templates, key=_growth, reverse=True),
        "characters that one lacks": difference.characters,
        "words that one lacks": difference.words,
    }
    for title, changes in sections.items():
        _show_changes(title, changes)
    if difference.records is None:
        out.print("records: one of the two holds none (dummy)")
    else:
        _show_records(difference.records)


def _masked(change: Changed) -> Changed:
    """A change of how often an entry of a list was found, as a terminal may show it."""
    from memeloom.dataset.card_text import masked

    reason, _, entry = change.name.rpartition(": ")
    return type(change)(f"{reason}: {masked(entry)}", change.before, change.after)


def _growth(change: Changed) -> int:
    return abs(int(change.after or 0) - int(change.before or 0))


def _show_changes(title: str, changes: Sequence[Changed]) -> None:
    from rich.table import Table

    from memeloom.cli.summary import console

    if not changes:
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("what", overflow="fold")
    for column in ("before", "after", "change"):
        table.add_column(column, justify="right", overflow="fold")
    for change in changes[:_MOST_ROWS]:
        both = [each for each in (change.before, change.after) if each is not None]
        counts = all(isinstance(each, int) and not isinstance(each, bool) for each in both)
        change_of = f"{(change.after or 0) - (change.before or 0):+,}" if counts else ""
        table.add_row(printable(change.name), _shown(change.before), _shown(change.after), change_of)
    if len(changes) > _MOST_ROWS:
        table.add_row(f"… {len(changes) - _MOST_ROWS:,} more", style="dim")
    console().print(table)


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable((", ".join(map(str, value)) or "[]") if isinstance(value, list) else str(value))


def _show_records(changes: RecordChanges) -> None:
    from rich.table import Table

    from memeloom.cli.summary import console, number

    table = Table(title="records", title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("records", justify="right")
    table.add_column("for example", overflow="fold")
    table.add_row("the same", number(changes.same), "")
    for kind, count in changes.counts.items():
        table.add_row(kind, number(count), printable(", ".join(changes.examples.get(kind, []))))
        parts = changes.moved if kind == "moved" else changes.changed if kind == "changed" else {}
        for name, part in sorted(parts.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(f"  {name}", number(part), "", style="dim")
    console().print(table)
