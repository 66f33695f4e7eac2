"""`memeloom crawl`: sites into the catalog."""

from functools import partial

import click

from memeloom.cli.context import CommandContext, check_blobs
from memeloom.cli.options import Command
from memeloom.cli.terminal import echo_row


@click.command(
    cls=Command, argument="crawl.sources", settings=("crawl.max_memes", "crawl.max_minutes"), extras=("crawl",)
)
@click.option("--retry-failed", is_flag=True, help="Retry the requests that failed for good; look for nothing new.")
@click.option("--failed", is_flag=True, help="List the requests that failed for good, with reasons; crawl nothing.")
@click.option("--fresh", is_flag=True, help="Forget unfinished requests, and where earlier crawls ended.")
@click.pass_obj
def crawl(context: CommandContext, retry_failed: bool, failed: bool, fresh: bool) -> None:
    """Crawl SOURCES (imgflip, reddit, images; default: crawl.sources) into the catalog.

    A crawl that was stopped or killed continues where it ended. Crawling again is safe: a meme found twice is
    one record, an image seen twice is stored once.
    """
    config = context.config()
    from memeloom.scrapers import crawl as stage

    if failed:
        for source, request in stage.failed_requests(config):
            echo_row(source, request.reason, request.url)
        return
    check_blobs(config)
    context.run("crawl", config, partial(stage.crawl, retry_failed=retry_failed, fresh=fresh))
