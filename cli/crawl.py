"""`memeloom crawl`: sites into the catalog."""

from functools import partial

import click

from memeloom.cli.session import Session


@click.command(short_help="Crawl sites into the catalog.")
@click.argument("sources", nargs=-1, type=click.Choice(["imgflip", "reddit", "images"]))
@click.option("--max-memes", type=click.IntRange(min=1), help="Stop after so many memes.")
@click.option("--max-minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after so many minutes.")
@click.option("--retry-failed", is_flag=True, help="Try again what was set aside, instead of looking for new memes.")
@click.option("--failed", is_flag=True, help="List what was set aside, and why; crawl nothing.")
@click.option("--fresh", is_flag=True, help="Forget what the last crawl left undone, and where it ended.")
@click.pass_obj
def command(
    session: Session,
    sources: tuple[str, ...],
    max_memes: int | None,
    max_minutes: float | None,
    retry_failed: bool,
    failed: bool,
    fresh: bool,
) -> None:
    """Crawl SOURCES (imgflip, reddit, images; default: the settings') into the catalog.

    A crawl that was stopped or killed goes on where it ended. Crawling again is safe: a meme found twice is
    one record, an image seen twice is one blob.
    """
    from memeloom.scrapers.crawl import crawl, set_aside

    more = [f"crawl.sources=[{','.join(sources)}]"] if sources else []
    more += [f"crawl.max_memes={max_memes}"] if max_memes else []
    more += [f"crawl.max_minutes={max_minutes}"] if max_minutes else []
    config = session.config(*more)
    if failed:
        for source, dead in set_aside(config):
            click.echo(f"{source}\t{dead.reason}\t{dead.url}")
        return
    session.run("crawl", config, partial(crawl, retry_failed=retry_failed, fresh=fresh))
