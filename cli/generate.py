"""`memeloom generate`: captions from a trained model, and a picture of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.session import Session

if TYPE_CHECKING:
    from configs.schema import Config
    from train.generate import GeneratedCaption


@click.command(short_help="Write captions with a trained model, and draw them.")
@click.argument("templates", nargs=-1)
@click.option("-n", "--captions", type=click.IntRange(min=1), help="Captions a template.")
@click.option("--model", type=click.Path(path_type=Path), help="Model folder.")
@click.option("--start", help="The captions begin with this text.")
@click.option("--seed", type=int, help="Repeats the same captions.")
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw the memes into this PNG or JPEG."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a caption on standard output.")
@click.pass_obj
def command(
    session: Session,
    templates: tuple[str, ...],
    captions: int | None,
    model: Path | None,
    start: str | None,
    seed: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Write captions for TEMPLATES (ids, slugs or names; default: the dataset's most frequent)."""
    options = {"captions": captions, "model": model, "start": start, "seed": seed, "picture": picture}
    more = [f"generate.{key}={json.dumps(_plain(value))}" for key, value in options.items() if value is not None]
    more += [f"generate.templates={json.dumps(templates)}"] if templates else []
    config = session.config(*more)
    show_and_draw(config, as_json=as_json)


def show_and_draw(config: Config, *, as_json: bool = False) -> None:
    """Generate as `config` says, print the captions, and draw them if it names a picture."""
    from cli.progress import open_progress
    from train.generate import generate_captions

    with open_progress() as progress:
        written = generate_captions(config, progress)
    if as_json:
        for caption in written:
            click.echo(json.dumps(asdict(caption), ensure_ascii=False))
    else:
        _show(written)
    if config.generate.picture:
        from serve.memes import draw_memes

        path = draw_memes(config, written, Path(config.generate.picture))
        click.echo(f"picture: {path}", err=True)


def _plain(value: Path | str | int) -> str | int:
    return str(value) if isinstance(value, Path) else value


def _show(written: list[GeneratedCaption]) -> None:
    from rich.table import Table
    from rich.text import Text

    from cli.summary import console

    table = Table(title="generated", title_justify="left", title_style="bold")
    table.add_column("template", style="cyan")
    table.add_column("caption")
    previous = None
    for caption in written:
        name = "" if caption.template_name == previous else caption.template_name
        previous = caption.template_name
        table.add_row(Text(name), Text(" / ".join(caption.boxes)))
    console().print(table)
