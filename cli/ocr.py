"""`memeloom ocr`: Read memes whose caption is only in the picture."""

import click

from cli.session import Session


@click.command(name="ocr", short_help="Read memes whose caption is only in the picture.")
@click.pass_obj
def command(session: Session) -> None:
    """Read memes whose caption is only in the picture.

    Memes with an image and no caption are leased in batches by worker processes;
    what was read is written to the catalog. A run that was stopped goes on where it was.
    """
    from ocr.stage import read_memes

    session.run("ocr", session.config(), read_memes)
