"""`memeloom purge`: take memes out for good."""

import click

from cli.session import Session
from configs.errors import ConfigError


@click.command(short_help="Remove memes for good, by id, source, author or image.")
@click.argument("ids", nargs=-1)
@click.option("--source", help="Every meme of this source.")
@click.option("--author", help="Every meme of this author (name; needs crawl.author_salt).")
@click.option("--image", help="Every meme with this image (sha256).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(
    session: Session, ids: tuple[str, ...], source: str | None, author: str | None, image: str | None, yes: bool
) -> None:
    """Remove memes by IDS (imgflip:1abc) or by the options, which all must hold, from catalog and blob store.

    With them go their pictures, what was made of these (the picture without words, its mask) and what they are
    recognised by, unless another meme or a template needs it. The clean picture of a template stays.
    Their ids are remembered, so that no later crawl or import brings them back.
    Datasets built before still hold them: build them again.
    """
    from catalog.blobs import open_blobs
    from catalog.documents import Where, open_documents
    from catalog.records import author_hash

    if not (ids or source or author or image):
        raise click.UsageError("name ids, or one of --source, --author, --image")
    config = session.config()
    hashed = None
    if author:
        if config.crawl.author_salt is None:
            raise ConfigError("--author: set crawl.author_salt to the salt that the crawl used")
        hashed = author_hash(author, config.crawl.author_salt.get_secret_value())
    where = Where(ids=ids or None, source=source, author=hashed, image_key=image)
    documents, blobs = open_documents(config.store), open_blobs(config.store)
    try:
        found = documents.count(where)
        if not found:
            click.echo("no meme matches; nothing removed")
            return
        if not yes:
            click.confirm(f"Remove {found:,} memes for good?", abort=True)
        removed, orphans = documents.purge(where)
        deleted = sum(blobs.delete(key) for key in orphans)
    finally:
        blobs.close()
        documents.close()
    click.echo(f"removed: memes {removed:,}, images {deleted:,}; build datasets that held them again")
