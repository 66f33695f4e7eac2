"""`memeloom import`: caption dumps into the catalog."""

from pathlib import Path

import click

from memeloom.cli.session import Session


@click.command(name="import", short_help="Import caption dumps (JSON, JSONL; plain, gz, zst).")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Stop at the first broken record instead of skipping and counting it.")
@click.option("--layout", help="Name the layout instead of recognising it.")
@click.pass_obj
def command(session: Session, paths: tuple[Path, ...], strict: bool, layout: str | None) -> None:
    """Import caption dumps from PATHS: files, or folders of them.

    Known layouts: ImgFlip575K (one file a template, or one caption a line), Memefly's captions
    by meme, Imgflip's template API, and what `memeloom export` writes.
    """
    from memeloom.scrapers.dumps import import_dumps

    session.run(
        "import",
        session.config(),
        lambda config, progress: import_dumps(config, paths, progress, strict=strict, layout=layout),
    )
