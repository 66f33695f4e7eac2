"""`memeloom evaluate`: how good models are, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cli.session import Session


@click.command(name="evaluate", short_help="Judge models by captions that they never saw, and by what they write.")
@click.argument("models", nargs=-1, metavar="[MODEL]...", type=click.Path(path_type=Path, file_okay=False))
@click.option("--dataset", type=click.Path(path_type=Path, file_okay=False), help="Dataset folder.")
@click.option("--captions", type=click.IntRange(min=1), help="Judge by so many captions only, drawn by the seed.")
@click.option("--written", type=click.IntRange(min=0), help="Captions written at each temperature; 0: none.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Folder of the report.")
@click.option(
    "--leaderboard", type=click.Path(path_type=Path, dir_okay=False), help="Add a row a model to this Markdown page."
)
@click.pass_obj
def command(session: Session, /, models: tuple[Path, ...], **options: Path | int | None) -> None:
    """Judge models by captions that they never saw, and by what they write.

    MODEL is a folder of `memeloom train`; several are compared in one report. Bits per character are comparable
    between all kinds of models.
    """
    from train.evaluation.stage import evaluate_models

    more = [f"evaluate.{key}={json.dumps(_plain(value))}" for key, value in options.items() if value is not None]
    more += [f"evaluate.models={json.dumps([str(model) for model in models])}"] if models else []
    session.run("evaluate", session.config(*more), evaluate_models)


def _plain(value: Path | int) -> str | int:
    return str(value) if isinstance(value, Path) else value
