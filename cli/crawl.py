"""`memeloom crawl`: sites into the catalog."""

from functools import partial
from typing import Any

import click

from memeloom.cli import crawl_failed as failures
from memeloom.cli.context import CommandContext, check_blobs
from memeloom.cli.crawl_failed import When
from memeloom.cli.options import Command


@click.command(
    cls=Command, argument="crawl.sources", settings=("crawl.max_memes", "crawl.max_minutes"), extras=("crawl",)
)
@click.option("--retry-failed", is_flag=True, help="Retry the requests that failed for good; look for nothing new.")
@click.option("--failed", is_flag=True, help="Count and list the requests that failed for good; crawl nothing.")
@click.option("--drop-failed", is_flag=True, help="Delete requests that failed for good; crawl nothing.")
@click.option("--reason", metavar="TEXT", help="Of these, the requests whose reason contains TEXT.")
@click.option("--host", metavar="HOST", help="Of these, the requests to HOST and its subdomains.")
@click.option(
    "--since", type=When(), help="Of these, the requests that failed since 2026-11-23, T14:30 (UTC), 12h ago."
)
@click.option("--until", type=When(), help="Of these, the requests that failed until then.")
@click.option("--json", "as_json", is_flag=True, help="List as JSON lines.")
@click.option("--yes", is_flag=True, help="Drop without asking.")
@click.option("--fresh", is_flag=True, help="Forget unfinished requests, and where earlier crawls ended.")
@click.pass_obj
def crawl(
    context: CommandContext,
    /,
    retry_failed: bool,
    failed: bool,
    drop_failed: bool,
    as_json: bool,
    yes: bool,
    fresh: bool,
    **selected: Any,
) -> None:
    """Crawl SOURCES (default: crawl.sources) into the catalog.

    A crawl that was stopped or killed continues where it ended. Crawling again is safe: a meme found twice is
    one record, an image seen twice is stored once.

    --reason, --host, --since and --until select among the failed requests that --failed lists, --retry-failed retries
    and --drop-failed deletes.
    """
    if retry_failed + failed + drop_failed > 1:
        raise click.UsageError("--failed, --retry-failed and --drop-failed exclude each other")
    if fresh and (retry_failed or failed or drop_failed):
        raise click.UsageError("--fresh goes with none of --failed, --retry-failed and --drop-failed")
    chosen = {name: value for name, value in selected.items() if value is not None}
    if chosen and not (retry_failed or failed or drop_failed):
        raise click.UsageError(f"--{next(iter(chosen))} goes with --failed, --retry-failed or --drop-failed")
    if as_json and not failed:
        raise click.UsageError("--json goes with --failed")
    if yes and not drop_failed:
        raise click.UsageError("--yes goes with --drop-failed")
    config = context.config()
    from memeloom.scrapers import crawl as stage
    from memeloom.scrapers.frontier.dead_letters import DeadFilter

    which = DeadFilter(**chosen)
    if failed:
        failures.list_failed(config, which, as_json=as_json)
    elif drop_failed:
        failures.drop_failed(config, which, yes=yes)
    else:
        check_blobs(config)
        retried = which if retry_failed else None
        context.run("crawl", config, partial(stage.crawl, retry_failed=retried, fresh=fresh, spawned=True))
