"""`memeloom stats`: what the catalog holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from memeloom.cli.session import Session

if TYPE_CHECKING:
    from memeloom.catalog.documents import Counts


@click.command(short_help="Show what the catalog holds.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, every template included.")
@click.pass_obj
def command(session: Session, as_json: bool) -> None:
    """Show what the catalog holds: by source, by template, and the work of each stage by state and reason.

    Strangers are memes whose template nobody knows yet; `memeloom templates run` finds new templates among them.
    """
    from memeloom.catalog.documents import open_documents

    documents = open_documents(session.config().store)
    try:
        counts = documents.counts()
    finally:
        documents.close()
    if as_json:
        click.echo(json.dumps(asdict(counts), indent=2, ensure_ascii=False))
    else:
        _show(counts)


def _show(counts: Counts) -> None:
    from rich.table import Table

    from memeloom.cli.summary import console, counted, number

    out = console()
    facts = {"memes": counts.memes, "with an image": counts.images, "with a caption": counts.captions}
    out.print(counted("catalog", ("what", "memes"), {**facts, "read by OCR": counts.read}))
    if counts.sources:
        out.print(counted("by source", ("source", "memes"), counts.sources))
    states = {name: counts.template_records.get(name, 0) for name in ("known", "found", "merged", "rejected")}
    if sum(states.values()) > states["known"] or counts.strangers:
        facts = {**states, "strangers": counts.strangers}
        out.print(counted("templates", ("what", "count"), {name: n for name, n in facts.items() if n}))
    if counts.templates:
        out.print(counted(f"by template ({len(counts.templates):,})", ("template", "memes"), counts.templates))
    if not counts.stages:
        return
    work = Table(title="work", title_justify="left", title_style="bold")
    for column in ("stage", "pending", "leased", "done", "failed"):
        work.add_column(column, justify="left" if column == "stage" else "right")
    for stage, state in counts.stages.items():
        work.add_row(stage, *(number(n) for n in (state.pending, state.leased, state.done, state.failed)))
        for reason, count in sorted(state.reasons.items(), key=lambda item: -item[1]):
            work.add_row(f"  {reason}", "", "", "", number(count), style="yellow")
    out.print(work)
