"""`memeloom backup` and `memeloom restore`: the catalog into a folder, and back."""

from pathlib import Path

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.every import repeatable
from memeloom.cli.options import Command

_FOLDER = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.command(cls=Command)
@_FOLDER
@click.pass_obj
@repeatable
def backup(context: CommandContext, folder: Path) -> None:
    """Copy memes, templates, work, feed and pictures into FOLDER, while other commands read and write them.

    The copy holds everything that was stored before the command began. Only new pictures are copied; purged ones leave
    FOLDER, too. Until the copy is complete, and after kill -9, FOLDER holds the former backup.
    """
    config = context.config()
    from memeloom.catalog.backup import back_up

    context.run("backup", config, lambda config, progress: back_up(config.store, folder, progress))


@click.command(cls=Command)
@_FOLDER
@click.pass_obj
def restore(context: CommandContext, folder: Path) -> None:
    """Make the catalog of the settings anew from the backup in FOLDER.

    There must be no catalog yet: nothing is overwritten. A restore that was stopped or killed is repeated.
    """
    config = context.config()
    from memeloom.catalog.backup import restore as restore_catalog

    context.run("restore", config, lambda config, progress: restore_catalog(config.store, folder, progress))
