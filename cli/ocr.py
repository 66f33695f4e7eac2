"""`memeloom ocr`: Read memes whose caption is only in the picture."""

import re
from functools import partial
from pathlib import Path

import click

from memeloom.cli.session import Session

_FORMS = (".html", ".png")


@click.command(name="ocr", short_help="Read memes whose caption is only in the picture.")
@click.option("--inspect", metavar="FILE|ID", help="Read one picture, or meme of the catalog, and show what was read.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where --inspect draws: a name that ends in .html or .png. [default: a page in the folder of the runs]",
)
@click.option("--retry-failed", is_flag=True, help="Try again what was set aside, too.")
@click.option("--engine", type=click.Choice(["local", "ray"]), help="Where workers run. [default: engine.kind]")
@click.option("--failed", is_flag=True, help="List what was set aside, and why; read nothing.")
@click.pass_obj
def command(
    session: Session, inspect: str | None, out: Path | None, retry_failed: bool, engine: str | None, failed: bool
) -> None:
    """Read memes whose caption is only in the picture.

    Memes with an image and no caption are leased in batches by worker processes;
    what was read is written to the catalog. A run that was stopped goes on where it was.

    With --inspect nothing is written to the catalog: the picture is drawn with its words and text boxes coloured by
    confidence, beside their texts; words that were taken out are struck, each with its reason.
    """
    if (inspect is not None) + retry_failed + failed > 1:
        raise click.UsageError("--inspect, --retry-failed and --failed exclude each other")
    if out is not None and inspect is None:
        raise click.UsageError("--out goes with --inspect")
    if out is not None and out.suffix.lower() not in _FORMS:
        raise click.BadParameter(f"{out}: the name must end in {' or '.join(_FORMS)}", param_hint="--out")
    if inspect is not None:
        _inspect(session, inspect, out)
        return
    from memeloom.ocr.stage import failed_memes, read_memes

    config = session.config(*([f"engine.kind={engine}"] if engine else []))
    if failed:
        for meme_id, reason in failed_memes(config):
            click.echo(f"{meme_id}\t{reason}")
        return
    session.run("ocr", config, partial(read_memes, retry_failed=retry_failed))


def _inspect(session: Session, target: str, out: Path | None) -> None:
    from memeloom.cli.reading import show_look
    from memeloom.ocr.inspect import inspect
    from memeloom.ocr.report.look import write_look

    config = session.config()
    look = inspect(config, target)
    path = out or Path(config.runs) / f"inspect-{re.sub(r'[^A-Za-z0-9.-]+', '-', look.subject.name)[:100]}.html"
    write_look(path, look)
    show_look(look, path)
