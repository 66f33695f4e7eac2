"""`memeloom templates`: Find out what memes are made on, and decide about what was found."""

import json
import re
from functools import partial
from pathlib import Path

import click

from memeloom.cli.session import Session

_STATES = ("known", "found", "rejected", "merged")


@click.group(
    name="templates",
    invoke_without_command=True,
    short_help="Find out what memes are made on, and decide about new templates.",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Find out which template each meme is made on, and find the templates that no site tells of.

    Without a command, as `memeloom templates run`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(run)


@command.command()
@click.option("--again", is_flag=True, help="Look again at memes that stayed unknown, too.")
@click.option("--retry-failed", is_flag=True, help="Try again what was set aside, too.")
@click.option("--engine", type=click.Choice(["local", "ray"]), help="Where workers run. [default: engine.kind]")
@click.option(
    "--inpaint/--no-inpaint",
    default=None,
    help="Then take the words off every meme's picture, or do not. [default: templates.inpaint]",
)
@click.option("--failed", is_flag=True, help="List what was set aside, and why; look at nothing.")
@click.pass_obj
def run(
    session: Session,
    again: bool = False,
    retry_failed: bool = False,
    engine: str | None = None,
    inpaint: bool | None = None,
    failed: bool = False,
) -> None:
    """Recognise the templates of memes; find new ones among the rest.

    Memes with an image whose page names no template are leased in batches and compared with the pictures of the
    templates in the catalog. Memes on no known template are compared with each other: what enough of them share
    becomes a template, and gets its picture and its text boxes from them. A run that was stopped goes on where it was.
    """
    from memeloom.templates.apart import apart_memes
    from memeloom.templates.stage import failed_memes, match_memes

    if failed and (again or retry_failed):
        raise click.UsageError("--failed goes with neither --again nor --retry-failed")
    chosen = {"engine.kind": engine, "templates.inpaint": inpaint}
    config = session.config(*(f"{key}={str(value).lower()}" for key, value in chosen.items() if value is not None))
    if failed:
        for meme_id, reason in failed_memes(config):
            click.echo(f"{meme_id}\t{reason}")
        return
    session.run("templates", config, partial(match_memes, retry_failed=retry_failed, again=again))
    if config.templates.inpaint:
        session.run("inpaint", config, partial(apart_memes, retry_failed=retry_failed, again=again))


@command.command(name="list")
@click.option("--state", type=click.Choice(_STATES), help="Only those.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a template on standard output.")
@click.pass_obj
def list_command(session: Session, state: str | None, as_json: bool) -> None:
    """List the templates, those with the most memes first."""
    from memeloom.cli.curating import show_templates
    from memeloom.templates.curate import list_templates

    listed = list_templates(session.config(), state)  # type: ignore[arg-type]  # click checked it
    if not as_json:
        show_templates(listed)
        return
    for each in listed:
        record = each.template.model_dump(mode="json", exclude_none=True)
        click.echo(json.dumps({**record, "state": each.state, "members": each.members}, ensure_ascii=False))


@command.command()
@click.argument("template_id", metavar="ID")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the page. [default: a page in the folder of the runs]",
)
@click.pass_obj
def show(session: Session, template_id: str, out: Path | None) -> None:
    """Show what is known of one template.

    Its picture, its text boxes and some of its memes are on a page of their own.
    """
    from memeloom.cli.curating import show_template
    from memeloom.templates.curate import template_with_id
    from memeloom.templates.report.write import write_page

    config = session.config()
    listed = template_with_id(config, template_id)
    path = out or Path(config.runs) / f"template-{re.sub(r'[^A-Za-z0-9.-]+', '-', template_id)[:100]}.html"
    write_page(config, path, [template_id])
    show_template(listed, path)


@command.command()
@click.argument("template_id", metavar="ID")
@click.argument("name")
@click.pass_obj
def name(session: Session, template_id: str, name: str) -> None:
    """Give a template a name.

    It is known from then on, even if it was rejected, and its memes learn the name.
    """
    from memeloom.templates.curate import name_template

    named = name_template(session.config(), template_id, name)
    click.echo(f"{template_id} is {named.name!r}")


@command.command()
@click.argument("template_id", metavar="ID")
@click.argument("into", metavar="INTO")
@click.pass_obj
def merge(session: Session, template_id: str, into: str) -> None:
    """Say that a template is another one.

    The memes of ID learn that they are made on INTO, and what looks like them is recognised as that. There is no way
    back.
    """
    from memeloom.templates.curate import merge_template

    target = merge_template(session.config(), template_id, into)
    click.echo(f"{template_id} is {target.id} ({target.name})")


@command.command()
@click.argument("template_id", metavar="ID")
@click.pass_obj
def reject(session: Session, template_id: str) -> None:
    """Say that a template is none.

    Its memes count as made on no template, and it is not found again. `memeloom templates name` brings it back.
    """
    from memeloom.templates.curate import reject_template

    reject_template(session.config(), template_id)
    click.echo(f"{template_id} is rejected; memeloom templates name {template_id} NAME brings it back")
