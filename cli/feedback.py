"""`memeloom feedback`: what people think of the feed's memes, for training, and which model they like more."""

from __future__ import annotations

from pathlib import Path

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Group
from memeloom.cli.terminal import add_row, console, echo_json, new_table
from memeloom.report.format import escape_controls


@click.group(cls=Group)
def feedback() -> None:
    """Use what people think of the memes on the feed."""


@feedback.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--votes", is_flag=True, help="Also write crawled captions, by the votes of their site.")
@click.pass_obj
def export(context: CommandContext, folder: Path, votes: bool) -> None:
    """Write captions with weights, and pairs of captions of which one is liked better, to FOLDER.

    `memeloom train --set train.feedback=FOLDER` reads them.
    """
    config = context.config()
    from memeloom.serve.feed.export import export_feedback

    context.run(
        "feedback-export", config, lambda config, progress: export_feedback(config, folder, progress, votes=votes)
    )


@feedback.command()
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), default="data/feedback.html", show_default=True,
    help="Page to write.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of the table.")
@click.pass_obj
def report(context: CommandContext, output: Path, as_json: bool) -> None:
    """Compare the models of feed.arms by what people think of their memes.

    The interval of a difference holds at any time: stop when it excludes zero.
    """
    config = context.config()
    from memeloom.serve.feed.report import HEAD, report_feedback, row_of, verdict

    found = report_feedback(config, output)
    if as_json:
        echo_json({
            "models": {arm.name: {"memes": arm.memes, "shown": arm.shown, "votes": arm.votes, "likes": arm.likes}
                       for arm in found.arms},
            "differences": [
                {"first": each.first.name, "second": each.second.name,
                 "difference": None if each.difference is None else each.difference._asdict()}
                for each in found.comparisons
            ],
        })  # fmt: skip
        return
    if found.arms:
        table = new_table("models on the feed", *HEAD, numbers=HEAD[1:])
        for arm in found.arms:
            add_row(table, *row_of(arm))
        console().print(table)
    for each in found.comparisons:
        click.echo(escape_controls(verdict(each)))
    if not found.comparisons:
        click.echo("nothing to compare: fewer than two models of feed.arms have written memes")
    click.echo(f"page: {output}")
