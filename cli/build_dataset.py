"""`memeloom build-dataset`: Clean the captions and write TFRecords."""

import click

from memeloom.cli.session import Session


@click.command(name="build-dataset", short_help="Clean the captions and write TFRecords.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["tfrecord", "parquet", "webdataset", "dummy"]),
    help="What files to write; `dummy` only counts, to find the bottleneck. [default: dataset.format]",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "zstd"]),
    help="TensorFlow itself cannot read zstd; `memeloom train` can. [default: dataset.compression]",
)
@click.option("--engine", type=click.Choice(["local", "ray"]), help="Where workers run. [default: engine.kind]")
@click.option("--workers", type=click.IntRange(min=1), help="So many processes. [default: engine.workers]")
@click.pass_obj
def command(
    session: Session, format_: str | None, compression: str | None, engine: str | None, workers: int | None
) -> None:
    """Clean the captions and write TFRecords, or Parquet or tars.

    Reads the catalog, applies the configured steps, counts every drop by its reason,
    and writes shards, vocabulary, dataset card and, last, the manifest.
    """
    from memeloom.dataset.build import build_dataset

    chosen = {
        "dataset.format": format_,
        "dataset.compression": compression,
        "engine.kind": engine,
        "engine.workers": workers,
    }
    config = session.config(*(f"{key}={value}" for key, value in chosen.items() if value))
    session.run("build-dataset", config, build_dataset)
