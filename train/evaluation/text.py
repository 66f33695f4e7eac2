"""The report in Markdown."""

from typing import Final

from memeloom.dataset.card_markdown import code, prose, table, told
from memeloom.dataset.card_text import shown
from memeloom.train.evaluation.results import ModelResult, Results
from memeloom.train.evaluation.tables import (
    BY_HEART,
    HOW_BY_HEART,
    HOW_JUDGED,
    HOW_WRITTEN,
    JUDGED,
    MODELS,
    TEMPLATES,
    WRITTEN,
    by_heart_rows,
    judged_rows,
    model_rows,
    template_rows,
    warnings,
    written_rows,
)

REPORT: Final = "report.md"


def render_text(results: Results) -> str:
    """The report, as Markdown."""
    parts = [
        "# How good the captions are",
        f"{results.captions:,} captions for {results.split} on {results.templates:,} templates, "
        f"{results.characters:,} characters; dataset {code(results.dataset)}, digest {code(results.digest)}; "
        f"seed {results.seed}; code at commit {code(results.commit)}.",
        "## Captions that no model has seen",
        table(JUDGED, judged_rows(results)),
        *map(prose, warnings(results)),
        prose(HOW_JUDGED),
    ]
    if results.real is not None:
        parts += ["## What they write", table(WRITTEN, written_rows(results)), prose(HOW_WRITTEN)]
        parts += ["## What they know by heart", table(BY_HEART, by_heart_rows(results)), prose(HOW_BY_HEART)]
    parts.append("## Templates")
    for model in results.models:
        parts += _templates(model)
    if results.real is not None:
        parts += ["## Some captions", "\n".join(_samples(results))]
    parts += ["## How they were made", table(MODELS, model_rows(results))]
    return "\n\n".join(parts) + "\n"


def _templates(model: ModelResult) -> list[str]:
    rows = [*template_rows(model.likelihood.best), *reversed([*template_rows(model.likelihood.worst)])]
    return [f"{told(model.name)}, fewest and most bits:", table(TEMPLATES, rows)] if rows else []


def _samples(results: Results) -> list[str]:
    """As code, for what is said there means nothing to Markdown."""
    assert results.real is not None
    said = [("people", results.real)]
    said += [(f"{model.name}, {at:g}", found) for model in results.models for at, found in model.sweep.items()]
    return [
        f"    {shown(name)}: {shown(sample.template)}: {shown(' / '.join(sample.boxes))}"
        for name, found in said
        for sample in found.samples
    ]
