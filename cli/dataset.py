"""`memeloom build-dataset` and `memeloom dataset`: build, inspect, verify and compare datasets."""

from __future__ import annotations

from pathlib import Path

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Command, Group
from memeloom.cli.terminal import echo_json
from memeloom.report.format import number

_FOLDER = click.Path(path_type=Path, file_okay=False)
_DATASET = click.argument("folder", metavar="[DIR]", type=_FOLDER, required=False)


@click.command(
    cls=Command,
    settings=(
        "dataset.output", "dataset.format", "dataset.compression", "dataset.images", "engine.kind", "engine.workers",
    ),
    extras=("dataset",),
)  # fmt: skip
@click.pass_obj
def build(context: CommandContext) -> None:
    """Clean the captions and write a dataset: TFRecords, Parquet or tar files.

    Reads the catalog, applies the steps of dataset.steps, counts every drop by its reason, and writes shards,
    vocabulary, dataset card and, last, the manifest.
    """
    config = context.config()
    from memeloom.dataset.build import build_dataset

    context.run("build-dataset", config, build_dataset)


@click.group(cls=Group)
def dataset() -> None:
    """Inspect, verify or compare datasets.

    DIR is the folder of a dataset; the default is dataset.output.
    """


@dataset.command()
@_DATASET
@click.option("--records", type=click.IntRange(min=0), default=3, show_default=True, help="Records shown of a split.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON: the whole manifest, and the records.")
@click.pass_obj
def inspect(context: CommandContext, folder: Path | None, records: int, as_json: bool) -> None:
    """Show the contents of a dataset: counts, drops, templates, files and some records."""
    folder = folder or Path(context.config().dataset.output)
    from memeloom.dataset.reader import inspect_dataset

    look = inspect_dataset(folder, records)
    if as_json:
        echo_json(look.as_json())
        return
    from memeloom.cli.dataset_tables import show_dataset

    show_dataset(look)


@dataset.command()
@_DATASET
@click.pass_obj
def verify(context: CommandContext, folder: Path | None) -> None:
    """Check every byte of a dataset.

    Checks each file's sha256, each record's checksums and schema, all counts of manifest and vocabulary, and that no
    id and no caption is in two splits. Exit code 1 names the first fault: of a damaged record the file and the offset.
    """
    folder = folder or Path(context.config().dataset.output)
    from memeloom.cli.progress import open_progress
    from memeloom.dataset.verify import verify_dataset

    with open_progress() as progress:
        manifest = verify_dataset(folder, progress)
    verdict = "counted, not written: nothing to check" if manifest.format == "dummy" else "no fault found"
    click.echo(f"{folder}: {number(manifest.records)} records in {number(len(manifest.shards))} files, {verdict}")


@dataset.command()
@click.argument("before", metavar="A", type=_FOLDER)
@click.argument("after", metavar="B", type=_FOLDER)
@click.option("--records", type=click.IntRange(min=0), default=5, show_default=True, help="Ids shown of each change.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
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
        echo_json(difference.as_json())
        return
    from memeloom.cli.dataset_tables import show_difference

    show_difference(difference)
