"""`memeloom evaluate`: how good models are, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import click

from memeloom.cli.session import Session


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
    from memeloom.train.evaluation.stage import METRICS, evaluate_models

    given = {**options, "models": [str(model) for model in models] or None}
    config = session.config(options={f"evaluate.{key}": value for key, value in given.items()})
    session.run("evaluate", config, evaluate_models)
    _show(Path(config.evaluate.output) / METRICS)


def _show(path: Path) -> None:
    """Print the figures that models are compared by."""
    from rich.table import Table

    from memeloom.cli.reading import printable
    from memeloom.cli.summary import console

    table = Table(title="fewest bits per character first", title_justify="left", title_style="bold")
    for column in ("model", "kind", "bits/char", "next token right", "of"):
        table.add_column(column, justify="right" if column in ("bits/char", "next token right") else "left")
    for model in json.loads(path.read_text(encoding="utf-8"))["models"]:
        found = model["likelihood"]
        bits, right = found["bits_per_character"]["value"], found["accuracy"]["value"]
        table.add_row(
            printable(model["name"]), model["kind"], f"{bits:.3f}", f"{100 * right:.1f} %", f"{model['unit']}s"
        )
    console().print(table)
