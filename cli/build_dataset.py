"""`memeloom build-dataset`: Clean the captions and write TFRecords."""

import click

from cli.session import Session


@click.command(name="build-dataset", short_help="Clean the captions and write TFRecords.")
@click.pass_obj
def command(session: Session) -> None:
    """Clean the captions and write TFRecords.

    Reads the catalog, applies the configured steps, counts every drop by its reason,
    and writes shards, vocabulary, dataset card and, last, the manifest.
    """
    from dataset.build import build_dataset

    session.run("build-dataset", session.config(), build_dataset)
