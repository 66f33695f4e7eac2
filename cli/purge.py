"""`memeloom purge`: take memes out for good."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memeloom.cli.session import Session
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


@click.command(short_help="Remove memes for good, by id, source, author, page or picture.")
@click.argument("ids", nargs=-1)
@click.option("--source", help="Every meme of this source.")
@click.option("--author", metavar="NAME", help="Every meme of this author; needs the crawl.author_salt of the crawl.")
@click.option("--author-hash", metavar="HASH", callback=_hex, help="Every meme of the author with this salted hash.")
@click.option("--page", metavar="URL", help="Every meme of this page; reads the whole catalog.")
@click.option("--image", metavar="SHA256", callback=_hex, help="Every meme with this picture.")
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Every meme with this picture."
)
@click.option(
    "--near",
    type=click.IntRange(0, _MOST_BITS),
    metavar="BITS",
    help="With --picture: those, too, whose picture looks the same but for so many of 256 bits.",
)
@click.option("--dataset", "folders", metavar="DIR", type=_FOLDER, multiple=True, help="Look into this dataset, too.")
@click.option("--orphans", is_flag=True, help="Also every stored picture that nothing refers to, whatever left it.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; touch nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; with --yes or --dry-run.")
@click.pass_obj
def command(
    session: Session, /, folders: tuple[Path, ...], orphans: bool, dry_run: bool, yes: bool, **asked: Any
) -> None:
    """Remove memes by IDS (imgflip:1abc) or by the options, which all must hold, from catalog and blob store.

    With them go their pictures, what was made of these (pictures without words, masks, recovered pictures of
    templates) and what they are recognised by, unless another meme or a template needs it. Their ids are remembered:
    no later crawl or import brings them back.

    Then it names the datasets that hold removed memes and have to be built again: `dataset.output`, and those that
    --dataset names. What was built or copied elsewhere is yours to find.

    With --picture, memes whose picture looks much the same are listed; --near removes them, too.

    Killed at any moment, the same command, or any other purge, does the rest.
    """
    as_json = asked.pop("as_json")
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json goes with --yes or --dry-run")
    if not orphans and not any(value for name, value in asked.items() if name != "near"):
        raise click.UsageError(
            "name ids, or one of --source, --author, --author-hash, --page, --image, --picture, --orphans"
        )
    from memeloom.cli.purging import Purge, show_purge

    config = session.config()
    with closing(Purge(session, config, _choice(config, asked), folders, orphans)) as purge:
        if dry_run or not yes:
            planned = purge.plan(look_around=dry_run)
            if not as_json:
                show_purge(planned)
            if dry_run:
                if as_json:
                    click.echo(json.dumps(planned.as_json(), indent=2))
                return
            if not planned.anything:
                return
            click.confirm("Remove this for good?", abort=True)
        done = purge.run()
    if as_json:
        click.echo(json.dumps(done.as_json(), indent=2))
    else:
        show_purge(done)


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
