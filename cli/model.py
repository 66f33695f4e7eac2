"""`memeloom train`, `generate`, `evaluate` and `export-model`: captioning models."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.cli.context import CommandContext
from memeloom.cli.options import Command
from memeloom.cli.terminal import add_row, console, echo_json, new_table
from memeloom.configs.errors import MemeloomError
from memeloom.configs.extras import require
from memeloom.report.format import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memeloom.configs.progress import Progress
    from memeloom.configs.runs import Summary
    from memeloom.configs.schema import Config
    from memeloom.train.evaluation.reading.results import Reading
    from memeloom.train.export import ExportFormat
    from memeloom.train.generate import GeneratedCaption

_EXPORT_FORMATS = ("saved-model", "onnx", "keras")
# The sampling settings, and the methods that use them.
_METHODS = {
    "generate.min_score": ("threshold", "sampled-beam"),
    "generate.temperature": ("sample",),
    "generate.top_k": ("sample",),
    "generate.top_p": ("sample",),
    "generate.beam_width": ("beam", "sampled-beam"),
}


@click.command(
    cls=Command,
    settings=(
        "train.model", "train.dataset", "train.output", "train.passes", "train.steps", "train.restart",
        "train.patience", "train.precision", "train.devices", "train.seed",
    ),
)  # fmt: skip
@click.pass_obj
def train(context: CommandContext) -> None:
    """Train a captioning model on a dataset.

    Continues from the last checkpoint in train.output if it is of the same model and dataset.
    """
    config = context.config()
    from memeloom.train.fit import train_model

    context.run("train", config, train_model)


@click.command(cls=Command, settings=("train.output", "train.dataset", "train.rank_samples", "train.seed"))
@click.pass_obj
def rank(context: CommandContext) -> None:
    """Fit the ranker of the model in train.output, which chooses among captions; training ends with it, too."""
    config = context.config()
    from memeloom.train.fit import fit_ranker

    context.run("rank", config, fit_ranker)


@click.command(
    cls=Command,
    argument="generate.templates",
    settings=(
        "generate.captions", "generate.best_of", "generate.model", "generate.boxes", "generate.start",
        "generate.method", "generate.min_score", "generate.temperature", "generate.top_k", "generate.top_p",
        "generate.beam_width", "generate.safe", "generate.seed", "generate.image", "generate.picture", "generate.table",
    ),
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Write --count captions for every template into --table.")
@click.option("--read", metavar="FILE|ID", help="Picture or meme whose text, read by OCR, the captions continue.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a caption.")
@click.pass_obj
def generate(context: CommandContext, as_json: bool, read: str | None, every: bool) -> None:
    """Write captions for TEMPLATES (ids, slugs or names; default: the most frequent of the dataset).

    With --all they go into a table, to serve them without a model; a run that is killed continues where it was.
    """
    config = context.config()
    for key, methods in _METHODS.items():
        if key in context.settings and config.generate.method not in methods:
            option = key.partition(".")[2].replace("_", "-")
            raise click.UsageError(
                f"--{option} has no effect with --method {config.generate.method}; it is for {' and '.join(methods)}"
            )
    if every:
        _check_all(context, as_json=as_json, read=read)
        from memeloom.serve.ready import fill_table

        context.run("generate", config, fill_table)
        return
    if "generate.table" in context.settings:
        raise click.UsageError("--table is for --all")
    if read is not None:
        if "generate.start" in context.settings:
            raise click.UsageError("--read and --start exclude each other")
        context.settings["generate.start"] = _read(config, read)
        config = context.config()
    write_captions(config, as_json=as_json)


def _check_all(context: CommandContext, *, as_json: bool, read: str | None) -> None:
    """Refuse what --all would ignore."""
    given = {
        "TEMPLATES": "generate.templates" in context.settings,
        "--image": "generate.image" in context.settings,
        "--picture": "generate.picture" in context.settings,
        "--json": as_json,
        "--read": read is not None,
    }
    excluded = [name for name, is_given in given.items() if is_given]
    if excluded:
        raise click.UsageError(f"--all and {excluded[0]} exclude each other")


def write_captions(config: Config, *, as_json: bool = False) -> Sequence[GeneratedCaption]:
    """Generate captions, print them, and draw them if `generate.picture` is set; return them."""
    picture = Path(config.generate.picture) if config.generate.picture else None
    if picture is not None:
        require("serve", "cv2", "PIL")
        from memeloom.serve.memes import check_picture

        check_picture(picture)
    from memeloom.cli.progress import open_progress
    from memeloom.train.generate import generate_captions

    with open_progress() as progress:
        written = generate_captions(config, progress)
    if as_json:
        for caption in written:
            echo_json(asdict(caption), indent=None)
    else:
        _show_captions(written)
    if picture is not None:
        from memeloom.serve.memes import draw_memes

        for note in draw_memes(config, written, picture):
            click.echo(note, err=True)
        click.echo(f"picture: {picture}", err=True)
    return written


@click.command(
    cls=Command,
    argument="evaluate.models",
    settings=(
        "evaluate.dataset", "evaluate.split", "evaluate.captions", "evaluate.written", "evaluate.baselines",
        "evaluate.read_captions", "evaluate.output", "evaluate.leaderboard",
    ),
)  # fmt: skip
@click.option("--read", is_flag=True, help="Write a page of captions of people and MODELS, mixed, to be rated blind.")
@click.option("--rate", is_flag=True, help="Rate the captions of --read in the terminal, with the keys y and n.")
@click.option("--rater", metavar="NAME", help="Name of who rates with --rate; default: the last one, or a random one.")
@click.option(
    "--ratings", metavar="[FILE]", multiple=True, is_flag=False, flag_value="",
    help="Report the ratings in FILE; default: those beside the page of --read.",
)  # fmt: skip
@click.pass_obj
def evaluate(context: CommandContext, read: bool, rate: bool, rater: str | None, ratings: tuple[str, ...]) -> None:
    """Score MODELS on held-out captions and on the captions that they write.

    A model is a folder of `memeloom train`; several are compared in one report. Bits per character are comparable
    between all kinds of models. --read, --rate and --ratings let people judge the captions instead.
    """
    chosen = [name for name, given in (("--read", read), ("--rate", rate), ("--ratings", ratings)) if given]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if rater is not None and not rate:
        raise click.UsageError("--rater is for --rate")
    if (rate or ratings) and "evaluate.models" in context.settings:
        raise click.UsageError(f"MODELS has no effect with {chosen[0]}; several files are --ratings A --ratings B")
    config = context.config()
    if read:
        from memeloom.train.evaluation.reading.stage import write_sheet

        context.run("evaluate", config, write_sheet)
        return
    if rate:
        from memeloom.cli.rating import rate as rate_captions

        rate_captions(config, rater)
        return
    if ratings:
        _report_ratings(context, config, ratings)
        return
    from memeloom.train.evaluation.stage import METRICS, evaluate_models

    context.run("evaluate", config, evaluate_models)
    _show_scores(Path(config.evaluate.output) / METRICS)


@click.command(cls=Command)
@click.argument("model", type=click.Path(path_type=Path, file_okay=False))
@click.option("--format", "format_name", type=click.Choice(_EXPORT_FORMATS), default="saved-model", show_default=True)
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@click.pass_obj
def export_model(context: CommandContext, model: Path, format_name: ExportFormat, output: Path) -> None:
    """Write the model in the folder MODEL for TensorFlow Serving, ONNX Runtime or Keras.

    Vocabulary, templates, metrics and settings are written beside the networks; export.json holds the sha256 of
    every file.
    """
    config = context.config()
    from memeloom.train.export import export_model as stage

    context.run("export-model", config, lambda _, progress: stage(model, output, format_name, progress))


def _read(config: Config, target: str) -> str:
    """Return the text of a picture as the start of a caption; the model decides whether its last part is complete."""
    from memeloom.ocr.inspect import inspect

    separator = config.dataset.separator
    texts = [" ".join(box.text.replace(separator, " ").split()) for box in inspect(config, target).ocr.boxes]
    if not any(texts):
        raise MemeloomError(f"{target}: OCR finds no text that a caption could continue")
    start = separator.join(texts)
    click.echo(f"read: {escape_controls(start)}", err=True)
    return start


def _show_captions(written: Sequence[GeneratedCaption]) -> None:
    table = new_table("generated", "template", "caption", "score", numbers=("score",))
    previous = None
    for caption in written:
        name = "" if caption.template_name == previous else caption.template_name
        previous = caption.template_name
        add_row(table, name, _shown(caption), f"{caption.score:.2f}")
    console().print(table)


def _shown(caption: GeneratedCaption) -> str:
    """Return the texts of a caption, without empty boxes behind the last; "…" marks one that is not finished."""
    boxes = [*caption.boxes]
    while not boxes[-1]:
        boxes.pop()
    return " / ".join(boxes) + ("" if caption.finished else " …")


def _report_ratings(context: CommandContext, config: Config, files: Sequence[str]) -> None:
    from memeloom.train.evaluation.reading.report import tables
    from memeloom.train.evaluation.reading.stage import report_ratings

    found: list[Reading] = []

    def work(config: Config, progress: Progress) -> Summary:  # noqa: ARG001
        summary, reading = report_ratings(config, [Path(file) for file in files if file])
        found.append(reading)
        return summary

    context.run("evaluate", config, work)
    for each in tables(found[0]):
        table = new_table(each.title, *each.head, numbers=each.head[1:])
        for row in each.rows:
            add_row(table, *row)
        console().print(table)
        if each.note:
            click.echo(each.note)


def _show_scores(path: Path) -> None:
    numbers = ("bits per character", "accuracy")
    table = new_table("fewest bits per character first", "model", "kind", *numbers, "per", numbers=numbers)
    for model in json.loads(path.read_text(encoding="utf-8"))["models"]:
        found = model["likelihood"]
        bits, accuracy = found["bits_per_character"]["value"], found["accuracy"]
        right = "–" if accuracy is None else f"{100 * accuracy['value']:.1f} %"
        add_row(table, model["name"], model["kind"], f"{bits:.3f}", right, model["unit"])
    console().print(table)
