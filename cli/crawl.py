"""`memeloom crawl` and `memeloom fetch`: sites into the catalog, and the pictures that it knows by address only."""

from typing import Any

import click

from memeloom.cli import crawl_failed as failures
from memeloom.cli.context import CommandContext
from memeloom.cli.every import repeatable
from memeloom.cli.options import Command


@click.command(
    cls=Command, argument="crawl.sources", settings=("crawl.max_memes", "crawl.max_minutes"), extras=("crawl",)
)
@failures.options
@click.option("--fresh", is_flag=True, help="Forget unfinished requests, and where earlier crawls ended.")
@click.pass_obj
@repeatable
def crawl(context: CommandContext, /, **options: Any) -> None:
    """Crawl SOURCES (default: crawl.sources) into the catalog.

    A crawl that was stopped or killed continues where it ended. Crawling again is safe: a meme found twice is
    one record, an image seen twice is stored once.

    --reason, --host, --since and --until select among the failed requests that --failed lists, --retry-failed retries
    and --drop-failed deletes.
    """
    failures.check(options)
    config = context.config()
    from memeloom.scrapers import crawl as stage

    failures.run(context, "crawl", config, config, stage.crawl, options)


@click.command(
    cls=Command,
    settings=("fetch.source", "fetch.template", "crawl.max_memes", "crawl.max_minutes"),
    extras=("crawl",),
)
@failures.options
@click.option("--fresh", is_flag=True, help="Forget unfinished requests and failures: ask for every picture again.")
@click.pass_obj
@repeatable
def fetch(context: CommandContext, /, **options: Any) -> None:
    """Download the pictures that the catalog knows by address only, such as those of imported dumps.

    A fetch that was stopped or killed continues where it ended, whatever memes were chosen then. A picture that failed
    is not asked for again: --retry-failed retries failures that may pass, --fresh asks for every missing picture.

    --reason, --host, --since and --until select among the failed requests that --failed lists, --retry-failed retries
    and --drop-failed deletes.
    """
    failures.check(options)
    config = context.config()
    from memeloom.scrapers.missing.fetch import fetch as stage
    from memeloom.scrapers.missing.fetch import fetching

    failures.run(context, "fetch", config, fetching(config), stage, options)
