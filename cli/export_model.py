"""`memeloom export-model`: a trained model for TensorFlow Serving, ONNX Runtime or Keras."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.cli.session import Session

if TYPE_CHECKING:
    from memeloom.train.export import ExportFormat

_FORMATS = ("saved-model", "onnx", "keras")


@click.command(name="export-model", short_help="Write a trained model as SavedModel, ONNX or .keras.")
@click.argument("model", type=click.Path(path_type=Path, file_okay=False))
@click.option("--format", "format_name", type=click.Choice(_FORMATS), default="saved-model", show_default=True)
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@click.pass_obj
def command(session: Session, model: Path, format_name: "ExportFormat", output: Path) -> None:
    """Write the model in the folder MODEL for programs that are not memeloom's.

    Vocabulary, templates, metrics and settings stand beside the networks; export.json holds the sha256 of every file.
    """
    from memeloom.train.export import export_model

    session.run(
        "export-model", session.config(), lambda _, progress: export_model(model, output, format_name, progress)
    )
