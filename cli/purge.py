"""`memeloom purge`: remove memes for good."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Command
from memeloom.cli.terminal import echo_json
from memeloom.configs.errors import ConfigError, MemeloomError

if TYPE_CHECKING:  # `memeloom --help` must not wait for them
    from collections.abc import Mapping

    from memeloom.catalog.removal import Choice
    from memeloom.configs.schema import Config

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_MOST_BITS = 32


def _hex(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise click.BadParameter(f"{value!r}: write 64 hexadecimal digits", param=parameter)
    return value.lower() if value else None


@click.command(cls=Command, extras=("pictures",))
@click.argument("ids", nargs=-1)
@click.option("--source", help="Memes of this source.")
@click.option("--author", metavar="NAME", help="Memes of this author; needs the crawl.author_salt of the crawl.")
@click.option("--author-hash", metavar="HASH", callback=_hex, help="Memes of the author with this salted hash.")
@click.option("--page", metavar="URL", help="Memes of this page; reads the whole catalog.")
@click.option("--image", metavar="SHA256", callback=_hex, help="Memes with this picture.")
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Memes with this picture."
)
@click.option(
    "--near",
    type=click.IntRange(0, _MOST_BITS),
    metavar="BITS",
    help="With --picture: memes whose picture differs in at most this many of 256 bits, too.",
)
@click.option("--dataset", "folders", metavar="DIR", type=_FOLDER, multiple=True, help="Another dataset to check.")
@click.option("--orphans", is_flag=True, help="Stored pictures that no meme and no template uses, too.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; change nothing.")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON; needs --yes or --dry-run.")
@click.pass_obj
def purge(
    context: CommandContext, /, folders: tuple[Path, ...], orphans: bool, dry_run: bool, yes: bool, **asked: Any
) -> None:
    """Remove memes, named by IDS (imgflip:1abc) or by options that must all match, from catalog and blob store.

    Their pictures go, too, with everything made from them (pictures without words, masks, recovered pictures of
    templates), unless another meme or a template needs it. The ids are remembered: no later crawl or import brings
    them back.

    The datasets that hold removed memes and have to be built again are named: dataset.output, and those of
    --dataset. Copies elsewhere are yours to find.

    With --picture, memes with a similar picture are listed; --near removes them, too.

    A purge that was killed is finished by the same command, or by any other purge.
    """
    as_json = asked.pop("as_json")
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json needs --yes or --dry-run")
    if not orphans and not any(value for name, value in asked.items() if name != "near"):
        raise click.UsageError(
            "name ids, or one of --source, --author, --author-hash, --page, --image, --picture, --orphans"
        )
    config = context.config()
    from memeloom.cli.purging import Purge, show_purge

    with closing(Purge(context, config, _choice(config, asked), folders, orphans)) as work:
        if dry_run or not yes:
            planned = work.plan(look_around=dry_run)
            if not as_json:
                show_purge(planned)
            if dry_run:
                if as_json:
                    echo_json(planned.as_json())
                return
            if not planned.anything:
                return
            if not _confirmed():
                click.echo("nothing was removed")
                return
        done = work.run()
    if as_json:
        echo_json(done.as_json())
    else:
        show_purge(done)


def _confirmed() -> bool:
    try:
        return click.confirm("Remove this for good?")
    except click.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C
        raise click.UsageError("--yes is needed when there is no terminal to ask on; nothing was removed") from None


def _choice(config: Config, asked: Mapping[str, Any]) -> Choice | None:
    """The memes that the options ask for; None if they ask for none (--orphans alone)."""
    from memeloom.catalog.documents import Where
    from memeloom.catalog.records import author_hash
    from memeloom.catalog.removal import Choice

    for one, other in (("author", "author_hash"), ("image", "picture")):
        if asked[one] and asked[other]:
            raise click.UsageError(f"--{one} and --{other.replace('_', '-')} exclude each other")
    if asked["near"] is not None and not asked["picture"]:
        raise click.UsageError("--near goes with --picture")
    if not any(asked.values()):
        return None
    author, image, phash256 = asked["author_hash"], asked["image"], None
    if asked["author"]:
        if config.crawl.author_salt is None:
            raise ConfigError("--author: set crawl.author_salt to the salt that the crawl used")
        author = author_hash(asked["author"], config.crawl.author_salt.get_secret_value())
    if asked["picture"]:
        image, phash256 = _picture(config, asked["picture"])
    ids, near = asked["ids"] or None, asked["near"]
    where = Where(ids=ids, source=asked["source"], author=author, page_url=asked["page"])
    if near is None:
        return Choice(replace(where, image_key=image), looks_like=phash256)
    return Choice(where, looks_like=phash256, bits=near)


def _picture(config: Config, path: Path) -> tuple[str, str]:
    """Key and hash under which a crawl would have kept the picture in a file."""
    from memeloom.catalog.errors import BadImage
    from memeloom.catalog.frames import receive

    limits = config.crawl
    try:
        image = receive(path.read_bytes(), max_bytes=limits.max_image_bytes, max_pixels=limits.max_image_pixels).image
    except OSError as error:
        raise MemeloomError(f"{path}: cannot be read: {error.strerror}") from error
    except BadImage as error:
        raise MemeloomError(f"{path}: no picture that a crawl would have kept: {error}") from error
    return image.key, image.phash256
