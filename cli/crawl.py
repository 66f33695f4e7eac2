"""`memeloom crawl`: sites into the catalog."""

import click

from cli.session import Session


@click.command(short_help="Crawl sites into the catalog.")
@click.argument("sources", nargs=-1, type=click.Choice(["imgflip", "reddit", "images"]))
@click.option("--max-memes", type=click.IntRange(min=1), help="Stop after so many memes.")
@click.option("--max-minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after so many minutes.")
@click.pass_obj
def command(session: Session, sources: tuple[str, ...], max_memes: int | None, max_minutes: float | None) -> None:
    """Crawl SOURCES (imgflip, reddit, images; default: the settings') into the catalog.

    Crawling again is safe: a meme found twice is one record, an image seen twice is one blob.
    """
    from scrapers.crawl import crawl

    more = [f"crawl.sources=[{','.join(sources)}]"] if sources else []
    more += [f"crawl.max_memes={max_memes}"] if max_memes else []
    more += [f"crawl.max_minutes={max_minutes}"] if max_minutes else []
    session.run("crawl", session.config(*more), crawl)
