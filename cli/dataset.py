"""`memeloom dataset`: Look at a dataset, check it, and see what changed between two."""

from __future__ import annotations

import json
from pathlib import Path

import click

from memeloom.cli.session import Session

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(name="dataset", short_help="Look at a dataset, check it, compare two.")
def command() -> None:
    """Look at a dataset, check it, and see what changed between two.

    DIR is the folder of a dataset; without it, the one that `dataset.output` names.
    """


@command.command()
@click.argument("folder", metavar="[DIR]", type=_FOLDER, required=False)
@click.option("--records", type=click.IntRange(min=0), default=3, show_default=True, help="So many of each split.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: the whole manifest, and the records.")
@click.pass_obj
def inspect(session: Session, folder: Path | None, records: int, as_json: bool) -> None:
    """Show what is in a dataset: counts, drops, templates, files and some records."""
    from memeloom.dataset.inspect import inspect_dataset

    look = inspect_dataset(_chosen(session, folder), records)
    if as_json:
        click.echo(json.dumps(look.as_json(), indent=2, ensure_ascii=False))
        return
    from memeloom.cli.datasets import show_dataset

    show_dataset(look)


@command.command()
@click.argument("folder", metavar="[DIR]", type=_FOLDER, required=False)
@click.pass_obj
def verify(session: Session, folder: Path | None) -> None:
    """Check every byte of a dataset.

    Each file's sha256, each record's checksums and schema, all counts of manifest and vocabulary, and that no id and
    no caption stands on two sides of a split. Exit code 1 names the first thing that is wrong: of a damaged record
    the file and the offset.
    """
    from memeloom.cli.progress import open_progress
    from memeloom.cli.summary import number
    from memeloom.dataset.verify import verify_dataset

    chosen = _chosen(session, folder)
    with open_progress() as progress:
        manifest = verify_dataset(chosen, progress)
    what = "counted and not written: there is nothing to check in them" if manifest.format == "dummy" else "all whole"
    click.echo(f"{chosen}: {number(manifest.records)} records in {number(len(manifest.shards))} files, {what}")


@command.command()
@click.argument("before", metavar="A", type=_FOLDER)
@click.argument("after", metavar="B", type=_FOLDER)
@click.option("--records", type=click.IntRange(min=0), default=5, show_default=True, help="Ids of each kind of change.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def diff(before: Path, after: Path, records: int, as_json: bool) -> None:
    """Show what changed from dataset A to dataset B.

    Settings and code, counts by reason and source, templates, vocabulary, and the records that were added, removed,
    moved to another split or changed. The two may be of different formats.
    """
    from memeloom.cli.progress import open_progress
    from memeloom.dataset.diff import diff_datasets

    with open_progress() as progress:
        difference = diff_datasets(before, after, examples=records, progress=progress)
    if as_json:
        click.echo(json.dumps(difference.as_json(), indent=2, ensure_ascii=False))
        return
    from memeloom.cli.datasets import show_difference

    show_difference(difference)


def _chosen(session: Session, folder: Path | None) -> Path:
    return folder or Path(session.config().dataset.output)
