"""`memeloom generate`: captions from a trained model, and a picture of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.cli.session import Session

if TYPE_CHECKING:
    from memeloom.configs.schema import Config
    from memeloom.train.generate import GeneratedCaption


_METHODS = ("greedy", "threshold", "sample", "beam", "sampled-beam")
_ONLY_FOR = {
    "min_score": ("threshold", "sampled-beam"),
    "temperature": ("sample",),
    "top_k": ("sample",),
    "top_p": ("sample",),
    "beam_width": ("beam", "sampled-beam"),
}


@click.command(short_help="Write captions with a trained model, and draw them.")
@click.argument("templates", nargs=-1)
@click.option("-n", "--captions", type=click.IntRange(min=1), help="Captions a template.")
@click.option("--model", type=click.Path(path_type=Path), help="Model folder.")
@click.option("--boxes", type=click.IntRange(min=1), help="Text boxes a caption; lets templates be new to the model.")
@click.option("--start", help="The captions begin with this text.")
@click.option("--read", metavar="FILE|ID", help="Captions go on with what OCR reads in this picture, or this meme.")
@click.option("--method", type=click.Choice(_METHODS), help="How the captions are written.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="threshold, sampled-beam: the lower, the bolder.")
@click.option("--temperature", type=click.FloatRange(0, min_open=True), help="sample: the higher, the bolder.")
@click.option("--top-k", type=click.IntRange(min=1), help="sample: only among so many of the likeliest.")
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), help="sample: only among those that hold this share."
)
@click.option("--beam-width", type=click.IntRange(min=1), help="beam, sampled-beam: captions kept while writing.")
@click.option("--safe/--no-safe", default=None, help="Never write a word that the dataset's settings list as profane.")
@click.option("--seed", type=int, help="Repeats the same captions.")
@click.option(
    "--image",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Caption this picture in place of templates; for models that look at pictures.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw the memes into this PNG or JPEG."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a caption on standard output.")
@click.pass_obj
def command(
    session: Session,
    /,
    templates: tuple[str, ...],
    as_json: bool,
    read: str | None,
    **options: Path | str | float | None,
) -> None:
    """Write captions for TEMPLATES (ids, slugs or names; default: the dataset's most frequent)."""
    chosen = {key: value for key, value in options.items() if value is not None}
    given = {**chosen, "templates": templates or None}
    if read is not None:
        if "start" in chosen:
            raise click.UsageError("--read and --start exclude each other")
        given["start"] = _read(session.config(), read)
    config = session.config(options={f"generate.{key}": value for key, value in given.items()})
    for key, methods in _ONLY_FOR.items():
        if key in chosen and config.generate.method not in methods:
            name = key.replace("_", "-")
            raise click.UsageError(
                f"--{name} does nothing with --method {config.generate.method}; it is for {' and '.join(methods)}"
            )
    show_and_draw(config, as_json=as_json)


def _read(config: Config, target: str) -> str:
    """The texts in a picture, as the beginning of a caption; whether the last one is over is the model's to say."""
    from memeloom.configs.errors import MemeloomError
    from memeloom.ocr.inspect import inspect

    separator = config.dataset.separator
    texts = [" ".join(box.text.replace(separator, " ").split()) for box in inspect(config, target).ocr.boxes]
    if not any(texts):
        raise MemeloomError(f"{target}: OCR reads nothing there that a caption could go on with")
    start = separator.join(texts)
    click.echo(f"read: {start}", err=True)
    return start


def show_and_draw(config: Config, *, as_json: bool = False) -> None:
    """Generate as `config` says, print the captions, and draw them if it names a picture."""
    from memeloom.cli.progress import open_progress
    from memeloom.train.generate import generate_captions

    with open_progress() as progress:
        written = generate_captions(config, progress)
    if as_json:
        for caption in written:
            click.echo(json.dumps(asdict(caption), ensure_ascii=False))
    else:
        _show(written)
    if config.generate.picture:
        from memeloom.serve.memes import draw_memes

        path = draw_memes(config, written, Path(config.generate.picture))
        click.echo(f"picture: {path}", err=True)


def _show(written: list[GeneratedCaption]) -> None:
    from rich.table import Table
    from rich.text import Text

    from memeloom.cli.summary import console

    table = Table(title="generated", title_justify="left", title_style="bold")
    table.add_column("template", style="cyan")
    table.add_column("caption")
    table.add_column("score", justify="right")
    previous = None
    for caption in written:
        name = "" if caption.template_name == previous else caption.template_name
        previous = caption.template_name
        table.add_row(Text(name), Text(" / ".join(caption.boxes)), f"{caption.score:.2f}")
    console().print(table)
