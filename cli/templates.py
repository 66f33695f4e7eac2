"""`memeloom templates`: match memes with templates, and curate the templates that were found."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.cli.context import CommandContext, check_blobs
from memeloom.cli.every import repeatable
from memeloom.cli.options import Group
from memeloom.cli.terminal import add_row, console, echo_json, facts_table, new_table
from memeloom.configs.extras import require
from memeloom.report.format import escape_controls, number

if TYPE_CHECKING:  # loaded by the command only when it lists
    from collections.abc import Sequence

    from memeloom.templates.curate import Listed

_STATES = ("known", "found", "rejected", "merged")
_STATED_BY = {"memes": "its memes", "site": "its site", "import": "an import", "person": "you"}
_ID = click.argument("template_id", metavar="ID")


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def templates(ctx: click.Context) -> None:
    """Match memes with templates, and find the templates that no site names.

    Without a command, as `memeloom templates run`.
    """
    if ctx.invoked_subcommand is None:
        require("templates")
        ctx.invoke(run)


@templates.command(settings=("engine.kind", "engine.workers", "templates.inpaint"), extras=("templates",))
@click.option("--again", is_flag=True, help="Match memes on no known template again; make all pictures again.")
@click.pass_obj
@repeatable
def run(context: CommandContext, again: bool = False) -> None:
    """Match memes with templates, and find new templates among the rest.

    Memes with an image whose page names no template are leased in batches and compared with the pictures of the
    templates in the catalog. Memes on no known template are compared with each other: what enough of them share
    becomes a new template, with picture and text boxes. A run that was stopped continues where it ended.
    `memeloom failed retry` retries memes that failed.
    """
    config = context.config()
    from memeloom.templates.inpaint_stage import inpaint_memes
    from memeloom.templates.stage import match_memes

    check_blobs(config)
    context.run("templates", config, partial(match_memes, again=again))
    if config.templates.inpaint:
        context.run("inpaint", config, partial(inpaint_memes, again=again))


@templates.command("list")
@click.option("--state", type=click.Choice(_STATES), help="List the templates in this state only.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a template.")
@click.pass_obj
def list_command(context: CommandContext, state: str | None, as_json: bool) -> None:
    """List the templates, those with the most memes first."""
    config = context.config()
    from memeloom.templates.curate import list_templates

    listed = list_templates(config, state)  # type: ignore[arg-type]  # click checked it
    if not as_json:
        _show_list(listed)
        return
    for each in listed:
        record = each.template.model_dump(mode="json", exclude_none=True)
        echo_json({**record, "state": each.state, "members": each.members}, indent=None)


@templates.command()
@_ID
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Page to write (default: a page in the folder of runs).",
)
@click.pass_obj
def show(context: CommandContext, template_id: str, out: Path | None) -> None:
    """Show one template; its picture, its text boxes and some of its memes are on a page."""
    config = context.config()
    from memeloom.templates.curate import template_with_id
    from memeloom.templates.report.write import write_page

    listed = template_with_id(config, template_id)
    path = out or Path(config.runs) / f"template-{re.sub(r'[^A-Za-z0-9.-]+', '-', template_id)[:100]}.html"
    write_page(config, path, [template_id])
    _show_one(listed, path)


@templates.command()
@_ID
@click.argument("name")
@click.pass_obj
def name(context: CommandContext, template_id: str, name: str) -> None:
    """Name a template.

    Its state becomes known, even if it was rejected, and its memes get the name.
    """
    config = context.config()
    from memeloom.templates.curate import name_template

    named = name_template(config, template_id, name)
    click.echo(f"{escape_controls(template_id)} is {named.name!r}")


@templates.command()
@_ID
@click.argument("into", metavar="INTO")
@click.pass_obj
def merge(context: CommandContext, template_id: str, into: str) -> None:
    """Merge the template ID into the template INTO.

    Its memes move to INTO, and pictures that look like it are matched with INTO. This cannot be undone.
    """
    config = context.config()
    from memeloom.templates.curate import merge_template

    target = merge_template(config, template_id, into)
    click.echo(escape_controls(f"{template_id} is {target.id} ({target.name})"))


@templates.command()
@_ID
@click.pass_obj
def reject(context: CommandContext, template_id: str) -> None:
    """Reject a template.

    Its memes count as on no template, and it is not found again. `memeloom templates name` brings it back.
    """
    config = context.config()
    from memeloom.templates.curate import reject_template

    reject_template(config, template_id)
    shown = escape_controls(template_id)
    click.echo(f"{shown} is rejected; memeloom templates name {shown} NAME brings it back")


@templates.command()
@_ID
@click.option(
    "--box",
    "boxes",
    multiple=True,
    metavar="X,Y,WIDTH,HEIGHT[,ANGLE][,KEY=VALUE]",
    help="Set a text box, in fractions of the picture and degrees clockwise. Keys: colour, outline (or none), "
    "letters (capitals, lower, mock, typed), align, font, start, stop. Repeatable, in the order of the texts.",
)
@click.option(
    "--clear", is_flag=True, help="Forget all boxes; a crawl, an import or `templates run` states them again."
)
@click.pass_obj
def boxes(context: CommandContext, template_id: str, boxes: tuple[str, ...], clear: bool) -> None:
    """Show or set the text boxes of a template.

    Without options, its boxes are shown, each as --box takes it. Boxes that are set win over those of an import,
    a site, or `memeloom templates run`.
    """
    if boxes and clear:
        raise click.UsageError("--clear goes without --box")
    config = context.config()
    from memeloom.templates.box_facts import parse_box, write_box
    from memeloom.templates.curate import set_boxes, template_with_id

    if boxes or clear:
        template = set_boxes(config, template_id, [parse_box(each) for each in boxes])
    else:
        template = template_with_id(config, template_id).template
    for box in template.boxes:
        click.echo(f"--box {write_box(box)}")
    count, stated_by = len(template.boxes), template.boxes_stated_by
    told = (
        f"{number(count)} text {'box' if count == 1 else 'boxes'} from {_STATED_BY[stated_by]}"
        if stated_by
        else ("no text boxes are known: texts are drawn in bands")
    )
    click.echo(escape_controls(f"{template.id} ({template.name}): {told}"), err=True)


@templates.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.pass_obj
def import_command(context: CommandContext, path: Path) -> None:
    """Import templates with their text boxes from the folder PATH.

    It holds memegen's templates (folders with config.yml and default.jpg, .png or .gif), or pictures and a
    templates.yaml, which docs/drawing.md describes.
    """
    config = context.config()
    from memeloom.configs.errors import MemeloomError
    from memeloom.templates.importing import import_templates

    done = import_templates(config, path)
    for name, reason in done.skipped.items():
        click.echo(escape_controls(f"skipped {name}: {reason}"), err=True)
    if not done.counts.total():
        raise MemeloomError(f"{path}: none of its {number(len(done.skipped))} templates could be imported")
    counts = ", ".join(f"{number(count)} {name}" for name, count in sorted(done.counts.items(), reverse=True))
    click.echo(f"templates: {counts}" + (f", {number(len(done.skipped))} skipped" if done.skipped else ""))


def _show_list(listed: Sequence[Listed]) -> None:
    if not listed:
        click.echo("no templates")
        return
    table = new_table(
        f"templates ({len(listed):,})", "id", "name", "state", "memes", "first seen", "merged into", numbers=("memes",)
    )
    for each in listed:
        template = each.template
        seen = f"{template.first_seen:%Y-%m-%d}" if template.first_seen else ""
        add_row(table, template.id, template.name, each.state, number(each.members), seen, template.merged_into or "")
    console().print(table)


def _show_one(listed: Listed, page: Path) -> None:
    template, stated_by = listed.template, listed.template.boxes_stated_by
    facts = {
        "id": template.id,
        "slug": template.slug,
        "also called": ", ".join(template.alt_names),
        "state": listed.state,
        "merged into": template.merged_into,
        "source": template.source,
        "first seen": f"{template.first_seen:%Y-%m-%d %H:%M}" if template.first_seen else None,
        "memes": number(listed.members),
        "text boxes": f"{number(len(template.boxes))} from {_STATED_BY[stated_by]}" if stated_by else None,
        "picture": template.image.key if template.image else None,
        "made from memes": template.clean.image.key if template.clean else None,
    }
    console().print(facts_table(template.name, facts))
    click.echo(f"page: {page}")
