"""`memeloom import`, `export` and `stats`: dumps into the catalog, the catalog into a dump, and what it holds."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Command
from memeloom.cli.terminal import add_row, console, count_table, echo_json, new_table
from memeloom.report.format import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memeloom.catalog.documents import Counts
    from memeloom.configs.progress import Progress
    from memeloom.configs.runs import Summary
    from memeloom.configs.schema import Config


@click.command("import", cls=Command)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="Column of a field in your own data (caption=text); by default it is guessed. Repeatable.",
)
@click.option("--source-name", metavar="NAME", help="Name of your own data, with which its ids begin (default own).")
@click.option("--strict", is_flag=True, help="Stop at the first broken record instead of skipping and counting it.")
@click.option(
    "--no-header",
    is_flag=True,
    help="The first line of CSV and TSV is a row, too; columns are named by number (--map caption=2).",
)
@click.option("--dry-run", is_flag=True, help="Show the columns, the first memes and the bad rows; write nothing.")
@click.option("--layout", help="Layout or format of the files; by default it is recognised.")
@click.pass_obj
def import_(
    context: CommandContext,
    paths: tuple[Path, ...],
    maps: tuple[str, ...],
    source_name: str | None,
    strict: bool,
    layout: str | None,
    no_header: bool,
    dry_run: bool,
) -> None:
    """Import your own data or caption dumps from PATHS: files, folders, or - for standard input.

    Own data: pictures; CSV, TSV, Parquet or JSON lines with captions and paths or addresses of
    pictures (captions.csv in a folder of pictures); WebDataset tars. The summary shows which
    columns were read.

    Dumps: ImgFlip575K (one file a template, or one caption a line), Memefly's captions
    by meme, Imgflip's template API, Reddit's monthly dumps, and the output of `memeloom export`.
    """
    config = context.config()
    from memeloom.scrapers.dumps.transfer import Own, import_dumps

    own = Own(maps, source_name, header=not no_header)

    def work(config: Config, progress: Progress) -> Summary:
        return import_dumps(config, paths, progress, strict=strict, layout=layout, own=own, dry_run=dry_run)

    if dry_run:
        context.preview(config, work)
    else:
        context.run("import", config, work)


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.pass_obj
def export(context: CommandContext, path: Path) -> None:
    """Write every meme to PATH, one JSON object a line; .gz and .zst are compressed, - is standard output."""
    config = context.config()
    from memeloom.scrapers.dumps.export import export_memes

    if path == Path("-"):  # no table among the records
        from memeloom.cli.progress import open_progress

        with open_progress() as progress:
            export_memes(config, path, progress)
        return
    context.run("export", config, lambda config, progress: export_memes(config, path, progress))


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with every template.")
@click.pass_obj
def stats(context: CommandContext, as_json: bool) -> None:
    """Show what the catalog holds: memes by source and by template, and the work of each stage by state and reason.

    Unmatched memes are on no known template; `memeloom templates run` finds new templates among them.
    """
    config = context.config()
    from memeloom.catalog.stores import open_documents

    with closing(open_documents(config.store, read_only=True)) as documents:
        counts = documents.counts()
        names = {template.id: template.name for template in documents.templates()}
    if as_json:
        echo_json({**asdict(counts), "template_names": {key: names[key] for key in counts.templates if key in names}})
    else:
        _show(counts, names)


def _show(counts: Counts, names: Mapping[str, str]) -> None:
    out = console()
    facts = {"memes": counts.memes, "with an image": counts.images, "with a caption": counts.captions}
    out.print(count_table("catalog", ("what", "memes"), {**facts, "read by OCR": counts.read}))
    if counts.sources:
        out.print(count_table("by source", ("source", "memes"), counts.sources))
    states = {name: counts.template_records.get(name, 0) for name in ("known", "found", "merged", "rejected")}
    if sum(states.values()) > states["known"] or counts.unmatched:
        facts = {**states, "unmatched memes": counts.unmatched}
        out.print(count_table("templates", ("what", "count"), {name: n for name, n in facts.items() if n}))
    if counts.templates:
        named = {f"{names[key]} ({key})" if key in names else key: n for key, n in counts.templates.items()}
        out.print(count_table(f"by template ({len(named):,})", ("template", "memes"), named))
    if counts.feed:
        out.print(count_table("feed", ("what", "count"), counts.feed))
    if not counts.stages:
        return
    work = new_table(
        "work", "stage", "pending", "leased", "done", "failed", numbers=("pending", "leased", "done", "failed")
    )
    for stage, state in counts.stages.items():
        add_row(work, stage, *map(number, (state.pending, state.leased, state.done, state.failed)))
        for reason, count in sorted(state.reasons.items(), key=lambda item: -item[1]):
            add_row(work, f"  {reason}", "", "", "", number(count), style="yellow")
    out.print(work)
