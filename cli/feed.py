"""`memeloom feed`: review, remove and prune memes of the feed, and forget people."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Group
from memeloom.cli.terminal import echo_row
from memeloom.report.format import escape_controls

if TYPE_CHECKING:  # `memeloom --help` must not wait for pydantic
    from memeloom.catalog.documents import DocumentStore
    from memeloom.serve.feed.review import Waiting

_BY_A_PERSON = "by a person"


@click.group(cls=Group)
def feed() -> None:
    """Review and remove memes of the feed; forget what a person did."""


@feed.command()
@click.option("--approve", "approved", metavar="ID", multiple=True, help="Show a meme by its id. Repeatable.")
@click.option("--remove", "removed", metavar="ID", multiple=True, help="Remove a meme by its id. Repeatable.")
@click.pass_obj
def review(context: CommandContext, approved: tuple[str, ...], removed: tuple[str, ...]) -> None:
    """Decide about memes that wait for a person, and about reported ones: asked one by one in a terminal, else listed.

    A reported meme stays on the feed until it is removed; to approve it drops its reports.
    """
    with _catalog(context) as documents:
        from memeloom.serve.feed.review import waiting

        for meme in approved:
            _approve(documents, meme)
        for meme in removed:
            _remove(documents, meme, _BY_A_PERSON)
        if approved or removed:
            return
        found = False
        for each in waiting(documents):
            found = True
            if not sys.stdin.isatty():
                echo_row(each.meme.id, each.why, each.meme.template, " / ".join(each.meme.boxes))
            elif not _ask(documents, each):
                return
        if not found:
            click.echo("nothing waits for review, and nothing is reported", err=True)


@feed.command()
@click.argument("memes", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", default=_BY_A_PERSON, show_default=True, help="Reason to note.")
@click.pass_obj
def remove(context: CommandContext, memes: tuple[str, ...], reason: str) -> None:
    """Remove memes for good: from the feed, from captions written in advance, and from accounts elsewhere.

    What is posted already is deleted by the next `memeloom publish run --send`.
    """
    with _catalog(context) as documents:
        for meme in memes:
            _remove(documents, meme, reason)


@feed.command()
@click.argument("person")
@click.pass_obj
def forget(context: CommandContext, person: str) -> None:
    """Delete the reactions and reports of PERSON, such as feed:0f1e2d."""
    with _catalog(context) as documents:
        click.echo(f"{documents.forget_person(person)} reactions deleted")


@feed.command()
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="Age from which to delete.")
@click.pass_obj
def prune(context: CommandContext, days: int) -> None:
    """Delete old memes without any reaction, report or post. Safe while a server runs."""
    with _catalog(context) as documents:
        click.echo(f"{documents.prune_feed(datetime.now(UTC) - timedelta(days=days))} memes deleted")


@contextmanager
def _catalog(context: CommandContext) -> Iterator[DocumentStore]:
    config = context.config()
    from memeloom.catalog.stores import open_documents

    with closing(open_documents(config.store)) as documents:
        yield documents


def _approve(documents: DocumentStore, meme: str) -> None:
    from memeloom.serve.feed.review import approve

    echo_row(meme, approve(documents, meme).state)


def _remove(documents: DocumentStore, meme: str, reason: str) -> None:
    from memeloom.serve.feed.review import take_down

    posts = take_down(documents, meme, reason)
    echo_row(meme, "removed", *(f"{count} posts {state}" for state, count in sorted(posts.items())))
    if posts.keys() - {"refused", "withdrawn"}:
        click.echo("next: memeloom publish run --send deletes what is posted", err=True)


def _ask(documents: DocumentStore, waiting: Waiting) -> bool:
    """Ask about one meme; return False to end."""
    meme = waiting.meme
    click.echo(f"\n{meme.id} · {escape_controls(waiting.why)}")
    click.echo(f"    {escape_controls(meme.template)}: {escape_controls(' / '.join(meme.boxes))}")
    answer = click.prompt(
        "Show it? y yes, n remove, s later, q quit", type=click.Choice(["y", "n", "s", "q"]), default="s"
    )
    if answer == "y":
        _approve(documents, meme.id)
    elif answer == "n":
        _remove(documents, meme.id, _BY_A_PERSON)
    return bool(answer != "q")
