"""The table that ends a run."""

from pathlib import Path

import click

from memeloom.cli.terminal import add_row, amount, console, new_table
from memeloom.configs.runs import Summary
from memeloom.report.format import duration, escape_controls, number, percent

# The counts of a stage that have a rate: work done one by one, in all of the stage's time.
_RATED = {
    "build-dataset": ("memes",),
    "crawl": ("pages", "memes", "images"),
    "evaluate": ("captions",),
    "export": ("memes",),
    "fetch": ("memes", "images"),
    "import": ("captions",),
    "inpaint": ("memes",),
    "ocr": ("memes",),
    "templates": ("memes",),
    "train": ("steps",),
}
# Counts whose name in `run.json` does not explain itself.
_LABELS = {
    "build-dataset": {
        "train": "for training",
        "validation": "for validation",
        "test": "for testing",
        "characters": "characters in the vocabulary",
        "words": "words in the vocabulary",
        "shards": "files",
        "bytes": "size",
    },
    "crawl": {"pages": "pages read", "new": "new memes", "bytes": "size of the images", "received bytes": "downloaded"},
    "fetch": {
        "memes": "memes completed",
        "new": "new memes",
        "bytes": "size of the images",
        "received bytes": "downloaded",
    },
    "ocr": {"kept": "captions kept"},
    "train": {"captions": "captions to learn from", "characters": "characters learned from"},
}
# What can be done about a count.
_HINTS = {
    "requests left": "`memeloom {stage}` continues with the requests that are left.",
    "requests set aside": "`memeloom failed` lists the failed requests, `memeloom failed retry` retries them.",
    "failed": "`memeloom failed --stage {stage}` lists the memes that failed, `memeloom failed retry` retries them.",
    "templates found": "`memeloom templates list --state found` lists them; name, merge or reject them.",
}


def show_summary(summary: Summary, record: Path | None) -> None:
    """Print what a stage did: counts with their rates, drops by reason, and outputs. Zeros are only in `run.json`."""
    total = summary.seconds.get("total", 0.0)
    table = new_table(
        f"{summary.stage}: done in {duration(total)}", "what", "count", "per second", numbers=("count", "per second")
    )
    for name, count in summary.counts.items():
        if count:
            rate = number(round(count / total, 1)) if total and name in _RATED.get(summary.stage, ()) else ""
            label = _LABELS.get(summary.stage, {}).get(name, name.replace("_", " "))
            add_row(table, label, percent(count) if name.endswith("accuracy") else amount(name, count), rate)
    if summary.reasons:
        table.add_section()
        for reason, count in sorted(summary.reasons.items(), key=lambda item: (-item[1], item[0])):
            add_row(table, f"  {reason}", number(count), "", style="yellow")
    if table.row_count:
        console().print(table)
    else:
        click.echo(f"{summary.stage}: there was nothing to do")
    for name, hint in _HINTS.items():
        if summary.counts.get(name):
            click.echo(hint.format(stage=summary.stage))
    for name, place in {**summary.outputs, **({"run record": str(record)} if record else {})}.items():
        # A problem list has several lines.
        click.echo("\n".join(map(escape_controls, f"{name}: {place}".splitlines())))
