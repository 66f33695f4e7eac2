"""`memeloom export`: the catalog as JSON lines, which `memeloom import` reads back."""

from pathlib import Path

import click

from memeloom.cli.session import Session


@click.command(short_help="Write the catalog's memes as JSON lines.")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def command(session: Session, path: Path) -> None:
    """Write every meme record to PATH, one JSON object a line; .gz and .zst are compressed."""
    from memeloom.scrapers.dumps import export_memes

    session.run("export", session.config(), lambda config, progress: export_memes(config, path, progress))
